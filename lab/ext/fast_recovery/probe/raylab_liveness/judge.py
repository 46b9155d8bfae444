"""Decides who is dead, from the signs of witnesses. Pure: the caller has the clock and asks often.

A silence counts in the judge's own time, of which a step gives no more than it should have taken: while the
judge was frozen or waited for a core, nobody was silent. And a silence has to be long for what is usual now:
the slowest of the recent past, which is the judge's own delay, the answers of the head's own node, and those
of the node itself, stretches it. The head's node is never judged: it is the measure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from raylab_liveness.model import Kind, Node, Sign

STEP_SECONDS = 0.1
"""Time from one step to the next, on a machine that is not busy."""

SILENCE_SECONDS = 2.2
"""Silence after which a node is dead on an idle machine: at a load of 10 an answer may take half a second."""

CUT_SECONDS = 0.3
"""The same for one whose connection has broken."""

STOPPED_SECONDS = 0.5
"""The same for one whose process was stopped, as a second witness says."""

RUNNING_SECONDS = 10.0
"""The same for one whose process runs, as a second witness says: on a machine that others use as well, single
processes have waited 2.2 s for a core or a disk while the head's own node answered."""

CALM_SECONDS = 0.35
"""The slowest of the recent past on a machine with work for every core, which stretches no silence."""

STRETCH = 10.0
"""Seconds by which a silence has to be longer for each second by which the slowest is more than that."""

LONGEST_SECONDS = 60.0
"""After so much of the judge's own time a silent node is dead, however slow the machine."""

HALF_LIFE_SECONDS = 15.0
"""Time in which the slowest of the past counts for half."""


@dataclass(frozen=True)
class Death:
    """A node that is dead, and why."""

    node: Node
    why: str


@dataclass
class _Record:
    """All that is known of one node."""

    node: Node
    slowest: float = 0.0
    """The slowest of its answers, as it counts now."""
    silent: float = 0.0
    """Seconds of the judge's own time without an answer to anybody."""
    signs: dict[str, Sign] = field(default_factory=dict)
    """Witness -> what it said last."""

    def said(self, kind: Kind) -> Sign | None:
        """The word of a witness that says this, if there is one."""
        return next((sign for sign in self.signs.values() if sign.kind is kind), None)


class Judge:
    """Hears signs, and names the dead."""

    def __init__(self, now: float) -> None:
        self._last = now
        self._slowest = 0.0
        """The slowest of the machine, as it counts now: the judge itself, and the head's own node."""
        self._records: dict[bytes, _Record] = {}

    def know(self, nodes: Iterable[Node]) -> None:
        """Judge these nodes from now on, and no others."""
        self._records = {node.node_id: self._records.get(node.node_id) or _Record(node) for node in nodes}

    def hear(self, sign: Sign) -> None:
        """Take up a sign; those of nodes that are not judged are nobody's business."""
        record = self._records.get(sign.node_id)
        if record is None:
            return
        record.signs[sign.witness] = sign
        if record.node.head:
            self._slowest = max(self._slowest, sign.seconds)
        elif sign.kind is Kind.ANSWERED:
            record.slowest = max(record.slowest, sign.seconds)
            record.silent = 0.0

    def step(self, now: float) -> tuple[Death, ...]:
        """The nodes that are dead now. To be called each STEP_SECONDS, after the signs were heard."""
        passed = max(0.0, now - self._last)
        self._last = now
        fades = 0.5 ** (passed / HALF_LIFE_SECONDS)
        self._slowest = max(self._slowest * fades, passed - STEP_SECONDS)
        own = min(passed, 2 * STEP_SECONDS)
        deaths = []
        for record in self._records.values():
            record.slowest *= fades
            if record.signs and not record.said(Kind.ANSWERED):
                record.silent += own
            why = "" if record.node.head else self._dead(record)
            if why:
                deaths.append(Death(record.node, why))
        return tuple(deaths)

    def _dead(self, record: _Record) -> str:
        """The reason why a node is dead, or nothing."""
        gone, cut = record.said(Kind.GONE), record.said(Kind.CUT)
        if gone is not None:
            return gone.why
        usual = max(self._slowest, record.slowest)
        stopped = record.said(Kind.STOPPED)
        alone = RUNNING_SECONDS if record.said(Kind.RUNNING) else SILENCE_SECONDS
        least = CUT_SECONDS if cut else STOPPED_SECONDS if stopped else alone
        patience = min(least + STRETCH * max(0.0, usual - CALM_SECONDS), LONGEST_SECONDS)
        if record.silent < patience - STEP_SECONDS / 2:  # sums of steps are not exact
            return ""
        broke = "its connection broke, and " if cut else "its process was stopped, and " if stopped else ""
        return f"{broke}its raylet has not answered for {record.silent:.1f} s (patience: {patience:.1f} s)"
