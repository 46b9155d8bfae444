"""The recovery flow: wait for a moment worth breaking, inject a fault, follow the recovery, revert, judge.

Everything a person sees live (`Moment`) and everything the receipt is judged on comes from the same three
sources: the ledger in the object store, Ray's node list, Ray's Jobs API.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from lab.errors import LabError, UsageError
from lab.evidence.receipt.expected import Expected
from lab.faults import Scene, Scope, find_fault
from lab.flows.recovery.collect_evidence import RECEIPTS_PREFIX, gather, keep, keep_samples
from lab.flows.recovery.control import refuse_fixed_names, run_control
from lab.flows.recovery.injection import Injection
from lab.flows.recovery.request import FaultRequest, Moment, OnMoment, Outcome
from lab.flows.recovery.resubmit import died, resubmit
from lab.flows.recovery.trigger import check_target, ended, wait_for_the_moment
from lab.flows.recovery.usage_samples import Sampler
from lab.flows.recovery.watch import Watch
from lab.lab import Lab

if TYPE_CHECKING:
    from lab.evidence.receipt import Evidence


def inject(
    lab: Lab,
    request: FaultRequest,
    on_moment: OnMoment,
    *,
    wait: bool = True,
    control: bool = False,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Inject a fault into a running job and, with `wait`, follow the job to its end and judge the recovery.

    With `control` the job is then repeated undisturbed and compared; the receipt has the result. The fault
    is reverted whatever happens, Ctrl-C included. What fails once it was, or may have been, begun is a
    problem of the receipt; what could not be undone is left to `labctl heal`. An interrupt, or a bug, is
    raised after the receipt has been kept with what is known until then.

    Raises NotFoundError, UsageError, RefusedError, UnsupportedError, LabDownError, WaitTimeoutError (the
    moment to inject never came; nothing was changed), and without `wait` what injection and revert raise. A
    control run that fails is told as a problem: the receipt is there.
    """
    from lab.evidence.receipt import judge

    fault = find_fault(request.kind)
    parameters = fault.kind.settle(request.given)
    if control and fault.kind.scope is Scope.CLUSTER:
        raise UsageError(
            f"{fault.kind.name} with a control run: the job dies with its head and cannot be repeated",
            "leave --control out",
        )
    target = check_target(lab, request.target, fault.kind)
    fault.refuse(Scene(lab.runtime, target, parameters=parameters))
    job = lab.jobs.get(request.job) if request.job else lab.running_job()
    if job.final:
        what = f"job {job.submission_id} has ended ({job.status})"
        raise ended(what, "submit another one", lab.why_failed(job))
    if control:
        refuse_fixed_names(job.submission_id, lab.history(job.submission_id))
    watch = Watch(lab, job.submission_id, clock)
    request = replace(request, target=target)
    sampler = Sampler(lab)
    if wait:
        sampler.start()
    try:
        aim = wait_for_the_moment(watch, request, fault.kind, on_moment, clock, sleep)
        injection = Injection(lab, fault, request, parameters, watch, aim, on_moment, clock, sleep)
        try:
            injection.run(to_the_end=wait)
            _tell_left(injection)
            if not wait:
                injection.check()
                return Outcome(injection.record(), None)
            evidence = _evidence(lab, watch, injection, on_moment, clock, sleep)
            receipt = judge(evidence)
            problems = [keep(lab, receipt)]
        except BaseException as error:
            if wait and injection.happened:
                _keep_what_is_known(lab, watch, injection, error)
            raise
    finally:
        samples = sampler.stop()
    problems.append(keep_samples(lab, receipt, samples))
    if control:
        try:
            compared = run_control(lab, job.submission_id, on_moment, clock=clock, sleep=sleep)
        except LabError as error:
            problems.append(f"no control run: {error.message}")
        else:
            receipt = judge(replace(evidence, control=compared.history))
            receipt = replace(receipt, control=compared.to_json())
            problems.append(keep(lab, receipt))
    for number, problem in enumerate(filter(None, problems)):
        injection.timeline.tell(f"problem {number}", None, problem)
    injection.check_bug()
    return Outcome(receipt.fault, receipt)


def _tell_left(injection: Injection) -> None:
    if not injection.undone:
        left = f"{injection.target} is still under the fault: labctl heal undoes it"
        injection.timeline.tell("problem heal", None, left)


def _keep_what_is_known(lab: Lab, watch: Watch, injection: Injection, error: BaseException) -> None:
    """Judge and keep what is known of a fault whose watching an interrupt, or a bug, has ended."""
    from lab.evidence.receipt import judge

    why = "it was interrupted" if isinstance(error, KeyboardInterrupt) else repr(error)
    problem = f"the recovery was not followed to its end: {why}"
    receipt = judge(gather(lab, watch, injection.record(), (*injection.problems, problem)))
    unkept = keep(lab, receipt)
    with contextlib.suppress(Exception):
        _tell_left(injection)
        kept = unkept or f"the receipt has what is known: labctl report {watch.submission_id}"
        injection.timeline.tell("note receipt", None, kept)


def _evidence(
    lab: Lab,
    watch: Watch,
    injection: Injection,
    on_moment: OnMoment,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Evidence:
    """All that is known once the job has ended; one that died with its head is submitted again before."""
    second, found = None, list(injection.problems)
    head_lost = injection.record().expected is Expected.HEAD_LOST
    if head_lost and not found and died(watch) and lab.runtime.spec().gcs_ft:
        try:
            second = resubmit(lab, watch, on_moment, clock, sleep)
        except LabError as error:
            found.append(f"the job could not be submitted again: {error.message}")
    return gather(lab, watch, injection.record(), found, second=second)


__all__ = [
    "RECEIPTS_PREFIX",
    "FaultRequest",
    "Moment",
    "OnMoment",
    "Outcome",
    "check_target",
    "inject",
]
