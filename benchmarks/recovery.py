"""Time from a fault to the first new step and the first new epoch, stage by stage, against stock Ray.

A lab has three nodes, so that a job of two ranks can move. All faults of a round hit the same job with the
same number of ranks, one after the other, each once the lab is whole again; an `early` fault hits a new job
right after its first checkpoint. A run that cannot be measured, or whose fault cannot be undone, is lost: it
is reported with its reason, the lab is repaired, and the next run begins.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.compare import Figures, Found, LostError, Measure, Row, by_turns, rows
from benchmarks.measure import own_lab, say, spec
from lab.errors import ClusterError, LabError
from lab.evidence.ledger import Run, RunAttempt
from lab.evidence.receipt.breakdown import Breakdown, breakdown
from lab.ext.report.labels import PARTS
from lab.faults import Scene, find_fault
from lab.lab import Lab
from lab.topology import LabSpec

OURS, STOCK = "this lab", "stock Ray"
NAMES = {OURS: "bench-lab", STOCK: "bench-stock"}

NODES = 3
SETTLE_SECONDS = 5.0
"""Time that the job trains in a whole lab before the next fault."""

REPORTS = 3
"""Number of epochs that an attempt reports before it is hit."""

REPAIRS = 3
"""Attempts to repair a lab after a lost run, before the rest of its round is given up."""

EPOCH = "epoch"
DEADLINE_SECONDS = 300.0
POLL_SECONDS, REST = 0.25, 4.0
"""Pause after a look, and at least as a multiple of its time: looks take no more than a fifth of a core."""


@dataclass(frozen=True)
class Case:
    """One row: a fault, the number of ranks of the job; `early` faults come after the first checkpoint."""

    name: str
    kind: str
    ranks: int = 1
    early: bool = False

    @property
    def reports(self) -> int:
        """Number of epochs that the attempt has reported when it is hit."""
        return 1 if self.early else REPORTS


CASES = (
    Case("one-worker kill", "kill"),
    Case("stop", "stop"),
    Case("pause", "pause"),
    Case("partition", "partition"),
    Case("one-worker kill early", "kill", early=True),
    Case("two-worker kill", "kill", 2),
    Case("two-worker pause", "pause", 2),
    Case("two-worker partition", "partition", 2),
    Case("two-worker kill early", "kill", 2, early=True),
)


def possible(runtime: str) -> list[str]:
    """Return the cases whose faults this runtime supports."""
    return [case.name for case in CASES if runtime == "compose" or case.kind != "partition"]


@dataclass(frozen=True)
class Recovery(Row):
    """A row with the median seconds of each stage (lab.evidence.receipt.breakdown), here and for the peer."""

    stages: Mapping[str, float] = field(default_factory=dict)
    peer_stages: Mapping[str, float] = field(default_factory=dict)


def run(runs: int, names: Sequence[str], runtime: str = "local") -> tuple[list[Row], Found]:
    """Measure one row per case. Each round has a lab with stock Ray, then one of ours."""
    known = {case.name: case for case in CASES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    cases = sorted((known[name] for name in names), key=lambda case: case.ranks)
    measured: dict[tuple[str, str], list[Breakdown]] = {}
    turns: dict[str, Measure] = {side: one_round(cases, runtime, side, measured) for side in (STOCK, OURS)}
    measured_turns = by_turns({"recovery": turns}, runs, say)
    return [_row(row, measured) for row in rows(measured_turns, OURS, [STOCK])], measured_turns


def _row(row: Row, measured: Mapping[tuple[str, str], Sequence[Breakdown]]) -> Recovery:
    """Add the stages of its case to a row."""
    case = row.what.partition(":")[0]
    ours, stock = (stages(measured.get((side, case), ())) for side in (OURS, STOCK))
    return Recovery(row.what, row.values, row.peer, row.peer_values, row.pairs, row.unit, ours, stock)


def one_round(
    cases: Sequence[Case], runtime: str, side: str, measured: dict[tuple[str, str], list[Breakdown]]
) -> Measure:
    """Measure every case once in a new lab; a case that fails is lost, and the lab is repaired."""
    name, stock = NAMES[side], side == STOCK
    wanted = spec(name, stock_ray=stock, workers=NODES)

    def measure() -> Figures:
        with own_lab(name, stock_ray=stock, workers=NODES, runtime=runtime) as lab:
            job, ranks = "", 0
            for case in cases:
                epoch, step = (f"{case.name}: fault to first new {end}" for end in (EPOCH, "step"))
                try:
                    if not job or case.early or ranks != case.ranks:
                        if job:
                            lab.jobs.stop(job)
                        wait_for("a lab that is whole", lambda: whole(lab))
                        job, ranks = _train(lab, case.ranks), case.ranks
                    took = once(lab, job, case)
                except Exception as error:  # the other cases are worth having
                    yield epoch, error
                    repair(lab, wanted)
                    job = job if lives(lab, job) else ""
                    continue
                measured.setdefault((side, case.name), []).append(took)
                parts = (f"{k} {v:.2f}" for k, v in took.items() if v is not None)
                say(f"{side}, {case.name}: {'  '.join(parts)}")
                total = sum(filter(None, took.values()))
                if took["first_step"] is not None:
                    yield step, total - (took["report"] or 0.0)
                yield epoch, total

    return measure


def repair(lab: Lab, wanted: LabSpec) -> None:
    """Bring back what a lost run has left down, frozen or cut off. Raises LostError if that fails."""
    for _ in range(REPAIRS):
        try:
            if lab.up(wanted).healthy:
                return
        except LabError as error:
            say(f"the lab could not be repaired: {error.message}")
    raise LostError(f"the lab could not be repaired, {REPAIRS} times")


def lives(lab: Lab, job: str) -> bool:
    """Tell whether a job is known and has not ended."""
    with contextlib.suppress(LabError):
        return bool(job) and not lab.jobs.get(job).final
    return False


def _train(lab: Lab, ranks: int) -> str:
    settings = {"epochs": "10000", "workers": str(ranks), "max-failures": "1000"}
    return lab.submit_recipe("digits", settings).submission_id


def once(lab: Lab, job: str, case: Case) -> Breakdown:
    """Break the node of the job's last rank, wait until it trains again, and make the lab whole.

    Raises LostError, and the LabError of a fault that could not be done or undone.
    """
    wait_for("a job that trains", lambda: trains(lab, job, case.reports))
    if not case.early:
        wait_for("a lab that is whole", lambda: whole(lab))
        time.sleep(SETTLE_SECONDS)
    hit = latest(lab, job)[1]
    target = service_of(lab, hit.nodes[max(hit.nodes)])
    fault = find_fault(case.kind)
    scene = Scene(lab.runtime, target, job=job, parameters=fault.kind.settle({}))
    fault.refuse(scene)
    at = time.time()
    try:
        struck = fault.inject(scene)
        at = struck.first if struck else at
        recovery: Breakdown = wait_for("the first new epoch", lambda: recovered(lab, job, hit, at))
    finally:
        fault.revert(scene)
    return recovery


def latest(lab: Lab, job: str) -> tuple[Run, RunAttempt]:
    """Return the job's run and its newest attempt; there must be one."""
    run = lab.history(job).runs[-1]
    return run, run.attempts[-1]


def trains(lab: Lab, job: str, reports: int) -> bool:
    """Tell whether the newest attempt has reported so many epochs and saved a checkpoint."""
    ended = lab.jobs.get(job)
    if ended.final:
        raise LostError(f"job {job}: {ended.status}: {ended.message}")
    runs = lab.history(job).runs
    attempts = runs[-1].attempts if runs else ()
    return bool(attempts and len(attempts[-1].reports) >= reports and runs[-1].checkpoints)


def whole(lab: Lab) -> bool:
    """Tell whether every service is healthy and every node is in the cluster."""
    return lab.status().healthy and sum(node.alive for node in lab.api.nodes()) == NODES + 1


def recovered(lab: Lab, job: str, hit: RunAttempt, at: float) -> Breakdown | None:
    """Return the recovery from a fault at `at`, once there is a new epoch."""
    run, newest = latest(lab, job)
    before = next(attempt for attempt in run.attempts if attempt.number == hit.number)
    return breakdown(run, before, newest, at) if newest.number > hit.number else None


def service_of(lab: Lab, node_id: str) -> str:
    """Return the service that this node is."""
    return next(node.service for node in lab.api.nodes() if node.node_id == node_id)


def wait_for(what: str, look: Callable[[], Any]) -> Any:
    """Poll `look` until it returns a true value, and return it; retry if the cluster does not answer."""
    end = time.monotonic() + DEADLINE_SECONDS
    while (began := time.monotonic()) < end:
        with contextlib.suppress(ClusterError):
            answer = look()
            if answer:
                return answer
        time.sleep(max(POLL_SECONDS, REST * (time.monotonic() - began)))
    raise LostError(f"no sign of {what} after {DEADLINE_SECONDS:g} s")


def stages(recoveries: Sequence[Breakdown]) -> dict[str, float]:
    """Return the median seconds of each stage, over the recoveries in which it is known."""
    medians = {}
    for name in PARTS:
        known = [seconds for recovery in recoveries if (seconds := recovery[name]) is not None]
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
