"""The demo: the lab's whole story in one call, with nothing assumed and everything checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.api.receipt import ReceiptDocument
from lab.errors import JobError, LabError, UsageError, WaitTimeoutError
from lab.faults import find_fault
from lab.faults.base import check_runtime
from lab.flows.recovery import (
    Control,
    FaultRequest,
    Moment,
    OnMoment,
    Patience,
    Watch,
    inject,
    outages,
    run_control,
)
from lab.host.clock import WALL, Clock
from lab.host.quantities import plural
from lab.lab import Lab
from lab.runtime.base import OnProgress
from lab.topology import LabSpec

RECIPE = "digits"
BREAK_AFTER_EPOCH = 5


@dataclass(frozen=True)
class DemoRequest:
    """The fault of the demo, and its training."""

    fault: str = "kill"
    workers: int = 1
    epochs: int = 20
    control: bool = True
    """Train once more undisturbed, and compare curves and final weights."""


@dataclass(frozen=True)
class DemoResult:
    """The outcome of the demo. `seconds` has a duration per phase."""

    receipt: ReceiptDocument
    control: Control | None
    seconds: Mapping[str, float]
    problem: LabError | None = None
    """Reason why a requested control run is missing: the receipt is there all the same."""


def run_demo(
    lab: Lab,
    spec: LabSpec,
    request: DemoRequest,
    on_progress: OnProgress,
    on_moment: OnMoment,
    *,
    clock: Clock = WALL,
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
    if lab.view.kind not in kind.runtimes:
        check_runtime(kind, lab.control)
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
    lab.up_to_train(spec, on_progress)
    check_runtime(kind, lab.control)
    seconds["up"] = clock() - begin

    begin = clock()
    job = lab.submit_recipe(RECIPE, settings, job_name="demo").submission_id
    on_moment(
        Moment(
            "submitted",
            None,
            f"job {job}: {RECIPE}, {request.epochs} epochs, {plural(request.workers, 'worker')}",
        )
    )
    on_moment(Moment("waiting", None, f"waiting for job {job} to start its processes"))
    target = _place_of_rank_0(Watch(lab, job, clock, outages(on_moment)))
    on_moment(Moment("placed", None, f"rank 0 trains on {target}"))
    fault = FaultRequest(target, request.fault, job, after_epoch=BREAK_AFTER_EPOCH)
    receipt = inject(lab, fault, on_moment, clock=clock).receipt
    assert receipt is not None
    seconds["train and recover"] = clock() - begin

    control, problem = None, None
    if request.control:
        begin = clock()
        try:
            control = _control(lab, job, on_moment, clock)
        except LabError as error:
            problem = error
            on_moment(Moment("problem", None, f"no control run: {error.message}"))
        seconds["control run"] = clock() - begin
    return DemoResult(receipt, control, seconds, problem)


def _control(lab: Lab, job: str, on_moment: OnMoment, clock: Clock) -> Control | None:
    """The control run; none where the job has not ended, since the result is then just that."""
    state = lab.jobs.get(job)
    if not state.final:
        on_moment(Moment("control", None, f"no control run: job {job} is still {state.status}"))
        return None
    return run_control(lab, job, on_moment, clock=clock)


def _place_of_rank_0(watch: Watch) -> str:
    """The service that rank 0 of the job runs on, once it has one. Raises JobError, WaitTimeoutError."""
    patience, job = Patience(watch), watch.submission_id
    for _ in patience.polls():
        placement = watch.lab.placement(job)
        if placement.workers:
            return placement.workers[0][1]
        if watch.job is not None and watch.over:
            raise JobError(
                f"job {job} ended ({watch.status}) before it trained: {watch.job.message}",
                f"labctl jobs logs {job}",
            )
    raise WaitTimeoutError(
        f"job {job} has no worker after {patience.waited:.0f} s; it is {watch.status}; {patience.describe()}",
        f"labctl jobs logs {job}; labctl status",
    )
