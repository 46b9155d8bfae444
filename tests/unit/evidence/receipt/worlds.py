"""What happened to a made-up training, and the axioms of docs/recovery.md, asked of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from lab.evidence.receipt import Evidence
from lab.faults import find_fault
from tests.unit.evidence.receipt.tales import Tale


@dataclass(frozen=True)
class Saved:
    """A checkpoint that Ray Train committed, or a state in a neighbour's memory, and what is in it."""

    number: int
    """Of the state that it holds: no two of different content have the same."""
    epoch: float
    at: float = 0.0
    uri: str = ""
    live: int = 0
    """Of the state that the training had when it was handed over."""


@dataclass(frozen=True)
class Begin:
    """How a rank of an attempt after the first one really began."""

    attempt: int
    at: float
    read: Saved | None
    """What it loaded, or was given by the rank that did, or by a neighbour."""
    state: Mapping[str, str]
    """The weights that it went on with: key -> digest."""
    handed: Mapping[str, str]
    """Those that it had when the newest intact checkpoint was handed over, or that a neighbour gave."""
    right: Saved | None
    """The newest intact checkpoint that was committed then."""
    kept: Saved | None
    """The state that a neighbour gave."""
    start: float
    """The progress that it says it has."""

    def right_with(self, *, compares: bool) -> bool:
        """Whether it went on from the newest that there was; weights that are not compared may be others."""
        if self.right is None:
            return False
        given = self.kept is not None and self.read == self.kept and self.read.epoch >= self.right.epoch
        behind = self.kept.epoch if given and self.kept else self.right.epoch
        taken = (
            self.state == self.handed
            if compares
            else self.read in (self.right, self.kept if given else self.right)
        )
        return taken and self.start == behind


@dataclass
class Truth:
    """What happened, and the evidence of it."""

    tale: Tale
    begins: list[Begin] = field(default_factory=list)
    reports: list[tuple[int, float]] = field(default_factory=list)
    """The attempt and the time of each report of all ranks."""
    trained: list[tuple[int, float]] = field(default_factory=list)
    """The same of those that are not of an evaluation before training."""
    before: int = 0
    """Checkpoints committed before the fault."""
    again: float = 0
    """Most epochs done twice by an attempt before the next fault."""
    flying: int = 0
    """Checkpoints of the attempt that was hit which were handed over, and not committed."""
    over: float = 0.0
    """When the fault was."""
    until: float = inf
    """When the next one came."""
    all_over: float = 0.0
    evidence: Evidence | None = None

    @property
    def undisturbed(self) -> bool:
        """The attempt that was hit went on when the fault was over, and then failed of something else."""
        return self.tale.interrupts and any(n == 1 and at > self.over for n, at in self.reports)

    @property
    def outlasted(self) -> bool:
        """The last attempt reported when all faults were over."""
        return any(n == self.reports[-1][0] and at > self.all_over for n, at in self.reports)

    def recovered(self, *, compared: bool = True) -> bool:
        """The axioms of `recovered`; not `compared` those of `resumed`, which claims nothing of the
        weights."""
        ended = self._overtaken(2) if self.tale.fails else not self.tale.short
        return (
            bool(self.begins)
            and self.before > 0
            and self._resumed(compared)
            and ended
            and not self.undisturbed
        )

    def _overtaken(self, attempt: int) -> bool:
        """Training had gone on from this attempt when the next fault came, which the job did not outlast."""
        on = any(n >= attempt and self.over * (attempt == 1) < at < self.until for n, at in self.trained)
        return self.until < inf and on and not self.outlasted

    def _resumed(self, compared: bool) -> bool:
        """Every rank of every attempt up to the next fault went on from its newest checkpoint."""
        mine = [b for b in self.begins if b.at < self.until]
        interval = self.tale.every * (2 if self.tale.kind == "checkpoint-corrupt" else 1)
        right = all(b.right_with(compares=compared) for b in mine)
        trained = not mine or any(n in {b.attempt for b in mine} for n, _ in self.trained)
        return right and trained and self.again <= interval + self.tale.every * self.flying

    def went_on(self) -> bool:
        """The axioms of `as-expected` after a fault that may leave a training alone, or end its job."""
        expected = find_fault(self.tale.kind).kind.expected
        if expected.resumes or not self.before:
            return False
        if self.tale.fails and not (self._overtaken(1) and not self.tale.interrupts):
            return expected.may_fail and not self.outlasted and self._resumed(self.tale.script.compares)
        on = self.until == inf or any(self.over < at < self.until for _, at in self.trained)
        return on and not self.tale.interrupts and (self.tale.fails or not self.tale.short)
