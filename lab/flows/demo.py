"""The demo: the lab's whole story in one call, with nothing assumed and everything checked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.errors import JobError, LabError, UsageError, WaitTimeoutError
from lab.faults import find_fault
from lab.faults.base import check_runtime
from lab.flows.recovery import FaultRequest, Moment, OnMoment, inject
from lab.flows.recovery.patience import Patience
from lab.flows.recovery.watch import Watch
from lab.lab import Lab
from lab.runtime.base import OnProgress
from lab.topology import LabSpec

if TYPE_CHECKING:
    from lab.evidence.receipt import Comparison, Curves, Receipt
    from lab.flows.recovery.control import Control

RECIPE = "digits"
POLL_SECONDS = 0.5
BREAK_AFTER_EPOCH = 5


@dataclass(frozen=True)
class DemoRequest:
    """What the demo breaks, and what it trains."""

    fault: str = "kill"
    workers: int = 1
    epochs: int = 20
    control: bool = True
    """Whether to train once more undisturbed and compare curves and final weights."""


@dataclass(frozen=True)
class DemoResult:
    """What the demo showed. `seconds` has a duration per phase."""

    receipt: Receipt
    comparison: Comparison | None
    submission_id: str
    control_id: str
    target: str
    seconds: Mapping[str, float]
    curves: Curves | None = None
    problem: LabError | None = None
    """Why there is no control run although one was asked for: the receipt is there all the same."""


def run_demo(
    lab: Lab,
    spec: LabSpec,
    request: DemoRequest,
    on_progress: OnProgress,
    on_moment: OnMoment,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> DemoResult:
    """Boot the lab, train, break the node that trains, judge the recovery, compare with an undisturbed run.

    Raises UsageError, NotFoundError, UnsupportedError for a request that cannot be met, before anything
    starts, and whatever the parts raise up to the receipt.
    """
    kind = find_fault(request.fault).kind
    if kind.scope.target:
        raise UsageError(
            f"--fault {kind.name}: the demo breaks the node or the process that trains",
            f"labctl fault-inject --fault {kind.name}, on a job of yours",
        )
    kind.settle({})
    if lab.runtime.kind not in kind.runtimes:
        check_runtime(kind, lab.runtime)
    if request.epochs <= BREAK_AFTER_EPOCH + 1:
        raise UsageError(
            f"--epochs {request.epochs}: the demo breaks the run after epoch {BREAK_AFTER_EPOCH} "
            "and needs a few more",
            f"use at least {BREAK_AFTER_EPOCH + 2}",
        )
    if request.workers > spec.workers:
        raise UsageError(f"--workers {request.workers}: the lab has {spec.workers} workers")
    seconds: dict[str, float] = {}
    settings = {"epochs": str(request.epochs), "workers": str(request.workers)}

    begin = clock()
    lab.up(spec, on_progress)
    check_runtime(kind, lab.runtime)
    seconds["up"] = clock() - begin

    begin = clock()
    job = lab.submit_recipe(RECIPE, settings, job_name="demo").submission_id
    on_moment(
        Moment("submitted", None, f"job {job}: {RECIPE}, {request.epochs} epochs, {_ranks(request.workers)}")
    )
    target = _where(lab, job, clock, sleep)
    on_moment(Moment("placed", None, f"rank 0 trains on {target}"))
    fault = FaultRequest(target, request.fault, job, after_epoch=BREAK_AFTER_EPOCH)
    receipt = inject(lab, fault, on_moment, clock=clock, sleep=sleep).receipt
    assert receipt is not None
    seconds["train and recover"] = clock() - begin

    control, problem = None, None
    if request.control:
        begin = clock()
        try:
            control = _control(lab, job, on_moment, clock, sleep)
        except LabError as error:
            problem = error
            on_moment(Moment("problem", None, f"no control run: {error.message}"))
        seconds["control run"] = clock() - begin
    return DemoResult(
        receipt,
        control.comparison if control else None,
        job,
        control.submission_id if control else "",
        target,
        seconds,
        control.curves if control else None,
        problem,
    )


def _control(
    lab: Lab,
    job: str,
    on_moment: OnMoment,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Control | None:
    """The control run; none where the job has not ended, since what became of it is the result then."""
    from lab.flows.recovery.control import run_control

    state = lab.jobs.get(job)
    if not state.final:
        on_moment(Moment("control", None, f"no control run: job {job} is still {state.status}"))
        return None
    return run_control(lab, job, on_moment, clock=clock, sleep=sleep)


def _where(lab: Lab, job: str, clock: Callable[[], float], sleep: Callable[[float], None]) -> str:
    """The service that rank 0 of the job runs on, once it has one."""
    watch = Watch(lab, job, clock)
    patience = Patience(watch, clock)
    while True:
        watch.poll()
        patience.look()
        placement = lab.placement(job)
        if placement.workers:
            return placement.workers[0][1]
        state = lab.jobs.get(job)
        if state.final:
            raise JobError(
                f"job {job} ended ({state.status}) before it trained: {state.message}",
                f"labctl job logs {job}",
            )
        why = patience.over
        if why:
            raise WaitTimeoutError(
                f"job {job} has no worker after {patience.waited:.0f} s; it is {state.status}; "
                f"{why}: {patience.told()}",
                f"labctl job logs {job}; labctl status",
            )
        sleep(POLL_SECONDS)


def _ranks(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"
