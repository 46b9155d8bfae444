"""The recovery flow: wait for a moment worth breaking, inject a fault, follow the recovery, revert, judge.

Everything a person sees live (`Moment`) and everything the receipt is judged on comes from the same three
sources: the ledger in the object store, Ray's node list, Ray's Jobs API.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.errors import RefusedError, UsageError
from lab.faults import find_fault
from lab.lab import Lab
from lab.recovery.injection import DOWN_TIME_LIMIT_SECONDS, RECEIPTS_PREFIX, Injection
from lab.recovery.request import FaultRequest, Moment, OnMoment, Outcome
from lab.recovery.trigger import check_target, wait_for_the_moment
from lab.recovery.watch import Watch


def inject(
    lab: Lab,
    request: FaultRequest,
    on_moment: OnMoment,
    *,
    wait: bool = True,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Inject a fault into a running job and, with `wait`, follow the job to its end and judge the recovery.

    The fault is reverted whatever happens, Ctrl-C included. Raises NotFoundError, RefusedError, LabDownError,
    WaitTimeoutError (the moment to inject never came; nothing was changed), and what the revert raises.
    """
    fault = find_fault(request.kind)
    if request.duration is not None and request.duration <= 0:
        raise UsageError(f"--for {request.duration:g}: must be more than 0 seconds")
    check_target(lab, request.target)
    job = lab.jobs.get(request.job) if request.job else lab.running_job()
    if job.final:
        raise RefusedError(f"job {job.submission_id} has ended ({job.status})", "submit another one")
    watch = Watch(lab, job.submission_id, clock)
    node = wait_for_the_moment(watch, request, on_moment, clock, sleep)
    return Injection(lab, fault, request, watch, node, on_moment, clock, sleep).run(wait)


__all__ = [
    "DOWN_TIME_LIMIT_SECONDS",
    "RECEIPTS_PREFIX",
    "FaultRequest",
    "Moment",
    "OnMoment",
    "Outcome",
    "check_target",
    "inject",
]
