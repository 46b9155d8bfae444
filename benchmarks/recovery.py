"""From a fault to the first new epoch: the lab's settings against stock Ray's, stage by stage.

Three nodes, so that a job of two ranks has somewhere to go; the faults of one kind of job all hit the same
job, one after the other, each once the lab is whole and quiet again. A run that cannot be measured, or whose
fault cannot be undone, is lost: it is told with its reason, the lab is repaired, and the next one begins.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from benchmarks.measure import Row, own_lab, say, spec
from lab.errors import ClusterError, LabError
from lab.faults import Scene, find_fault
from lab.lab import Lab
from lab.ledger import Run, RunAttempt
from lab.receipt.breakdown import Breakdown, breakdown
from lab.topology import LabSpec

NODES = 3
SETTLE_SECONDS = 40.0
"""How long the job trains in a lab that is whole before the next fault: processes get ready to stand by, on
one node after another."""

STOCK_SETTLE_SECONDS = 5.0
"""As long with stock settings, where there are none."""

REPORTS = 3
"""How many epochs an attempt reports before it is hit."""

REPAIRS = 3
"""How often a lab is repaired after a run that was lost, until the rest of its runs is given up."""

DEADLINE_SECONDS = 300.0
POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Case:
    """One row: a fault, and how many ranks the job has."""

    name: str
    kind: str
    ranks: int = 1


CASES = (
    Case("one-worker kill", "kill"),
    Case("stop", "stop"),
    Case("pause", "pause"),
    Case("partition", "partition"),
    Case("two-worker kill", "kill", 2),
)


class LostError(Exception):
    """A run without a figure, and why."""


@dataclass
class Measured:
    """What the runs of one case in one lab gave."""

    found: list[Breakdown] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Why each of the others gave nothing."""


@dataclass(frozen=True)
class Recovery(Row):
    """A row with the median seconds of each stage of the recovery (lab.receipt.breakdown), here and there."""

    stages: Mapping[str, float] = field(default_factory=dict)
    peer_stages: Mapping[str, float] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    """Why runs gave no figure, those of the peer too."""


def run(runs: int, names: Sequence[str], runtime: str = "local") -> list[Row]:
    """One row per case. The stock lab is measured first; each lab serves all its runs."""
    known = {case.name: case for case in CASES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    cases = sorted((known[name] for name in names), key=lambda case: case.ranks)
    stock = measure(cases, runs, runtime, stock_ray=True)
    ours = measure(cases, runs, runtime, stock_ray=False)
    rows: list[Row] = []
    for case in cases:
        here, there = ours[case], stock[case]
        if not here.found:
            say(f"{case.name}: no run gave a figure: {'; '.join(here.lost)}")
            continue
        rows.append(
            Recovery(
                f"{case.name}: fault to first new epoch",
                tuple(each.total for each in here.found),
                "stock Ray settings",
                tuple(each.total for each in there.found),
                stages(here.found),
                stages(there.found),
                (*here.lost, *(f"stock: {why}" for why in there.lost)),
            )
        )
    return rows


def measure(cases: Sequence[Case], runs: int, runtime: str, *, stock_ray: bool) -> dict[Case, Measured]:
    """Every recovery of these cases in one lab, told as it happens."""
    name = "bench-stock" if stock_ray else "bench-tuned"
    measured = {case: Measured() for case in cases}
    settle = STOCK_SETTLE_SECONDS if stock_ray else SETTLE_SECONDS
    wanted = spec(name, stock_ray=stock_ray, workers=NODES)
    say(f"starting {name} on the {runtime} runtime")
    with own_lab(name, stock_ray=stock_ray, workers=NODES, runtime=runtime) as lab:
        for ranks in dict.fromkeys(case.ranks for case in cases):
            settings = {"epochs": "10000", "workers": str(ranks), "max-failures": "1000"}
            job = lab.submit_workload("digits", settings).submission_id
            for case in (case for case in cases if case.ranks == ranks):
                for number in range(runs):
                    run = f"{name}  {case.name} {number + 1}/{runs}"
                    try:
                        found = once(lab, job, case.kind, settle)
                    except (LostError, LabError) as error:
                        why = str(error).splitlines()[0]
                        measured[case].lost.append(why)
                        say(f"{run}: lost: {why}")
                        if not repaired(lab, wanted):
                            return measured
                        job = living(lab, job, settings)
                        continue
                    measured[case].found.append(found)
                    parts = "  ".join(f"{k} {v:.2f}" for k, v in found.to_json().items() if v is not None)
                    say(f"{run}: {found.total:.2f} s   {parts}")
            lab.jobs.stop(job)
    return measured


def repaired(lab: Lab, wanted: LabSpec) -> bool:
    """Bring back whatever a lost run has left down, frozen or cut off; whether that could be done."""
    for _ in range(REPAIRS):
        try:
            return lab.up(wanted).healthy
        except LabError as error:
            say(f"the lab could not be repaired: {error.message}")
    return False


def living(lab: Lab, job: str, settings: Mapping[str, str]) -> str:
    """The job, or another one like it where it has ended or is not known any more."""
    with contextlib.suppress(LabError):
        if not lab.jobs.get(job).final:
            return job
    return lab.submit_workload("digits", settings).submission_id


def once(lab: Lab, job: str, kind: str, settle: float) -> Breakdown:
    """Break the node of the job's last rank, wait until it trains again, and make the lab whole.

    Raises LostError, and the LabError of a fault that could not be done or undone.
    """
    wait_for("a job that trains", lambda: trains(lab, job))
    wait_for("a lab that is whole", lambda: whole(lab))
    time.sleep(settle)
    hit = latest(lab, job)[1]
    target = service_of(lab, hit.nodes[max(hit.nodes)])
    fault = find_fault(kind)
    scene = Scene(lab.runtime, target, job=job, parameters=fault.kind.settle({}))
    fault.refuse(scene)
    at = time.time()
    try:
        fault.inject(scene)
        found: Breakdown = wait_for("the first new epoch", lambda: recovered(lab, job, hit, at))
    finally:
        fault.revert(scene)
    return found


def latest(lab: Lab, job: str) -> tuple[Run, RunAttempt]:
    """The job's run and its newest attempt; there must be one."""
    run = lab.history(job).runs[-1]
    return run, run.attempts[-1]


def trains(lab: Lab, job: str) -> bool:
    """Whether the newest attempt has reported some epochs and saved a checkpoint."""
    ended = lab.jobs.get(job)
    if ended.final:
        raise LostError(f"job {job}: {ended.status}: {ended.message}")
    runs = lab.history(job).runs
    attempts = runs[-1].attempts if runs else ()
    return bool(attempts and len(attempts[-1].reports) >= REPORTS and runs[-1].checkpoints)


def whole(lab: Lab) -> bool:
    """Whether every service is healthy and every node is in the cluster."""
    return lab.status().healthy and sum(node.alive for node in lab.api.nodes()) == NODES + 1


def recovered(lab: Lab, job: str, hit: RunAttempt, at: float) -> Breakdown | None:
    """The recovery from a fault at `at`, once there is a new epoch."""
    run, newest = latest(lab, job)
    before = next(attempt for attempt in run.attempts if attempt.number == hit.number)
    return breakdown(run, before, newest, at) if newest.number > hit.number else None


def service_of(lab: Lab, node_id: str) -> str:
    """The service that this node is."""
    return next(node.service for node in lab.api.nodes() if node.node_id == node_id)


def wait_for(what: str, look: Callable[[], Any]) -> Any:
    """What `look` gives once that is something; a cluster that does not answer meanwhile is asked again."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(ClusterError):
            found = look()
            if found:
                return found
        time.sleep(POLL_SECONDS)
    raise LostError(f"no sign of {what} after {DEADLINE_SECONDS:g} s")


def stages(recoveries: Sequence[Breakdown]) -> dict[str, float]:
    """The median seconds of each stage, of the recoveries in which it is known."""
    medians = {}
    for name in (each.name for each in fields(Breakdown)):
        known = [seconds for each in recoveries if (seconds := getattr(each, name)) is not None]
        if known:
            medians[name.rstrip("_")] = statistics.median(known)
    return medians


def stage_table(rows: Sequence[Row]) -> str:
    """The stages of these rows as a Markdown table of median seconds, and the runs that were lost."""
    names = [each.name.rstrip("_") for each in fields(Breakdown)]
    lines = ["| what | " + " | ".join(names) + " |", "| --- " * (len(names) + 1) + "|"]
    for row in rows:
        if isinstance(row, Recovery):
            for label, found in (("", row.stages), (f", {row.peer}", row.peer_stages)):
                cells = [f"{found[name]:.2f}" if name in found else "" for name in names]
                lines.append(f"| {row.what.partition(':')[0]}{label} | {' | '.join(cells)} |")
    lost = [
        f"lost: {row.what.partition(':')[0]}: {why}"
        for row in rows
        if isinstance(row, Recovery)
        for why in row.lost
    ]
    return "\n".join([*lines, *([""] if lost else []), *lost])
