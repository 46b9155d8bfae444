"""Time from a fault to the first new step and the first new epoch, stage by stage, against stock Ray.

A lab has three nodes, so that a job of two ranks can move. Each fault hits a job of its own, by
`labctl fault-inject`, whose receipt has the stages. A run that cannot be measured, or whose fault cannot be
undone, is lost: it is reported with its reason, and the next one begins in the same lab, once that is whole.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cli_lab import CliLab, cli_lab, recovered_in
from benchmarks.compare import Figures, Found, LostError, Measure, Row, by_turns, rows
from benchmarks.measure import OURS, STOCK, say
from lab.ext.report.labels import PARTS

NODES = 3
EPOCHS = 60
EPOCH = "epoch"

Stages = Mapping[str, "float | None"]
"""The seconds of a recovery, stage by stage: `breakdown` of a receipt."""


@dataclass(frozen=True)
class Case:
    """One row: a fault, the number of ranks of the job, and the epoch after which the fault comes."""

    name: str
    kind: str
    ranks: int = 1
    epoch: int = 4


CASES = (
    Case("one-worker kill", "kill"),
    Case("pause", "pause"),
    Case("one-worker kill early", "kill", epoch=1),
    Case("two-worker kill", "kill", 2),
    Case("two-worker pause", "pause", 2),
)


@dataclass(frozen=True)
class Recovery(Row):
    """A row with the median seconds of each stage, here and for the peer."""

    stages: Mapping[str, float] = field(default_factory=dict)
    peer_stages: Mapping[str, float] = field(default_factory=dict)


def run(runs: int, names: Sequence[str]) -> tuple[list[Row], Found]:
    """Measure these cases, or all. Each round has a lab with stock Ray, then one of ours."""
    known = {case.name: case for case in CASES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    cases = [known[name] for name in names or known]
    measured: dict[tuple[str, str], list[Stages]] = {}
    turns: dict[str, Measure] = {side: one_round(cases, side, measured) for side in (STOCK, OURS)}
    measured_turns = by_turns("recovery", turns, runs, say)
    return [_row(row, measured) for row in rows(measured_turns, OURS, STOCK)], measured_turns


def _row(row: Row, measured: Mapping[tuple[str, str], Sequence[Stages]]) -> Recovery:
    """Add the stages of its case to a row."""
    case = row.what.partition(":")[0]
    ours, stock = (stages(measured.get((side, case), ())) for side in (OURS, STOCK))
    return Recovery(row.what, row.values, row.peer, row.peer_values, row.pairs, row.unit, ours, stock)


def one_round(cases: Sequence[Case], side: str, measured: dict[tuple[str, str], list[Stages]]) -> Measure:
    """Measure every case once in a new lab; a case that fails is lost, and the lab is repaired."""

    def measure() -> Figures:
        with cli_lab(*(("--stock-ray",) if side == STOCK else ())) as lab:
            lab.up(NODES)
            for case in cases:
                step, epoch = (f"{case.name}: fault to first new {end}" for end in ("step", EPOCH))
                try:
                    receipt = once(lab, case)
                    to_step, total = recovered_in(receipt)
                except LostError as error:  # the other cases are worth having
                    yield epoch, error
                    lab.up(NODES)
                    continue
                measured.setdefault((side, case.name), []).append(receipt["breakdown"])
                yield step, to_step
                yield epoch, total

    return measure


def once(lab: CliLab, case: Case) -> dict[str, Any]:
    """The receipt of a fault that hits a job of its own. Raises LostError."""
    job = lab.submit("digits", {"epochs": str(EPOCHS), "workers": str(case.ranks)})
    words = ("--job", job, "--fault", case.kind, "--after-epoch", str(case.epoch), "--json")
    return lab.call(("fault-inject", *words))[1]


def stages(recoveries: Sequence[Stages]) -> dict[str, float]:
    """Return the median seconds of each stage, over the recoveries in which it is known."""
    medians = {}
    for name in PARTS:
        known = [seconds for recovery in recoveries if (seconds := recovery.get(name)) is not None]
        if known:
            medians[name] = statistics.median(known)
    return medians


def stage_table(measured: Sequence[Row]) -> str:
    """Format the stages of these rows as a Markdown table of median seconds."""
    lines = ["| what | " + " | ".join(PARTS) + " |", "| --- " * (len(PARTS) + 1) + "|"]
    for row in measured:
        if isinstance(row, Recovery) and row.what.endswith(EPOCH):
            for label, medians in (("", row.stages), (f", {row.peer}", row.peer_stages)):
                cells = [f"{medians[name]:.2f}" if name in medians else "" for name in PARTS]
                lines.append(f"| {row.what.partition(':')[0]}{label} | {' | '.join(cells)} |")
    return "\n".join(lines)
