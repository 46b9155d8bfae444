"""The recovery flow: wait for a moment worth breaking, inject a fault, follow the recovery, revert, judge.

Everything a person sees live (`Moment`) and everything the receipt is judged on comes from the same three
sources: the ledger in the object store, Ray's node list, Ray's Jobs API. Other flows use the names that this
module exports.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lab.errors import LabError, UsageError
from lab.evidence.ledger import History
from lab.evidence.receipt import Evidence, judge
from lab.evidence.receipt.expected import Expected
from lab.faults import Scene, Scope, find_fault
from lab.flows.recovery.collect_evidence import gather, keep
from lab.flows.recovery.control import Control, refuse_fixed_names, run_control
from lab.flows.recovery.injection import Injection
from lab.flows.recovery.patience import Patience
from lab.flows.recovery.preempted import preempted, steered
from lab.flows.recovery.request import FaultRequest, Moment, OnMoment, Outcome, outages
from lab.flows.recovery.resubmit import died, resubmit
from lab.flows.recovery.trigger import (
    Aim,
    check_target,
    ended,
    live_job,
    refuse_leaving_down,
    refuse_others,
    take_aim,
    wait_for_trigger,
)
from lab.flows.recovery.watch import Watch
from lab.host.clock import WALL, Clock, settle
from lab.lab import Lab
from lab.topology import State

WHOLE_SECONDS = 60.0
"""Deadline for every service to be healthy once the fault is undone and the job has ended: on a busy machine
one that serves may be silent for a while."""


def inject(
    lab: Lab,
    request: FaultRequest,
    on_moment: OnMoment,
    *,
    wait: bool = True,
    check: Callable[[History], None] = lambda _: None,
    clock: Clock = WALL,
) -> Outcome:
    """Inject a fault into a running job and, with `wait`, follow the job to its end and judge the recovery.

    `check` gets the history right before the fault, and may refuse it.

    The fault is reverted whatever happens, Ctrl-C included. What fails once it was, or may have been, begun
    is a problem of the receipt; what could not be undone is left to `labctl heal`. A node that is to be left
    down is left so, and no recovery is followed. An interrupt, or a bug, is raised after the receipt has been
    kept with what is known until then.

    Raises NotFoundError, UsageError, RefusedError, UnsupportedError, LabDownError, WaitTimeoutError (the
    moment to inject never came; nothing was changed), and without `wait` what injection and revert raise.
    """
    fault, wait = find_fault(request.kind), wait and not request.leave_down
    if request.leave_down:
        refuse_leaving_down(lab.control, fault.kind, request)
    parameters = fault.kind.settle(request.given)
    target = check_target(lab.control, request.target, fault.kind)
    fault.refuse(Scene(lab.control, target, parameters=parameters))
    job = live_job(lab, request.job, "submit another one")
    watch = Watch(lab, job.submission_id, clock, outages(on_moment))
    aim = wait_for_trigger(watch, replace(request, target=target), fault.kind, on_moment)
    if request.spare_others:
        refuse_others(watch, aim.target)
    check(watch.history)
    injection = Injection(watch, fault, aim, parameters, on_moment, request)
    try:
        injection.run(to_the_end=wait)
        injection.emit_left()
        if not wait:
            injection.check()
            return Outcome(injection.record(), None)
        evidence = _evidence(watch, injection, on_moment)
        receipt = judge(evidence)
        problem = keep(lab.store, receipt)
    except BaseException as error:
        if wait and injection.happened:
            _keep_what_is_known(watch, injection, error)
        raise
    if problem:
        injection.timeline.emit("problem 0", None, problem)
    injection.check_bug()
    return Outcome(evidence.fault, receipt, evidence)


def inject_and_repeat(
    lab: Lab, request: FaultRequest, on_moment: OnMoment, *, clock: Clock = WALL
) -> Outcome:
    """Like `inject`; the job is then repeated undisturbed, and the receipt has the comparison.

    Raises what `inject` raises, UsageError for a fault of the head, and RefusedError for a job that cannot be
    repeated, before anything is changed. A control run that fails is a moment of its own, a problem: the
    receipt is there.
    """
    kind = find_fault(request.kind).kind
    if kind.scope is Scope.CLUSTER:
        raise UsageError(
            f"{kind.name} with a control run: the job dies with its head and cannot be repeated",
            "leave --control out",
        )
    job = live_job(lab, request.job, "submit another one").submission_id
    check = partial(refuse_fixed_names, lab, job)
    check(lab.history(job))
    outcome = inject(lab, replace(request, job=job), on_moment, check=check, clock=clock)
    assert outcome.evidence is not None, "it was waited for"
    assert outcome.receipt is not None
    try:
        history = History.of(outcome.evidence.events)
        compared = run_control(lab, job, on_moment, history=history, clock=clock)
    except LabError as error:
        problem = f"no control run: {error.message}"
        on_moment(Moment("problem control", None, problem))
        receipt = replace(outcome.receipt, problems=(*outcome.receipt.problems, problem))
        keep(lab.store, receipt)
        return replace(outcome, receipt=receipt)
    receipt = judge(replace(outcome.evidence, control=compared.history))
    receipt = replace(receipt, control=compared.document())
    if problem := keep(lab.store, receipt):
        on_moment(Moment("problem control", None, problem))
    return replace(outcome, receipt=receipt)


def _keep_what_is_known(watch: Watch, injection: Injection, error: BaseException) -> None:
    """Judge and keep what is known of a fault whose watching an interrupt, or a bug, has ended."""
    why = "it was interrupted" if isinstance(error, KeyboardInterrupt) else repr(error)
    problem = f"the recovery was not followed to its end: {why}"
    receipt = judge(gather(watch, injection.record(), (*injection.problems, problem)))
    unkept = keep(watch.lab.store, receipt)
    with contextlib.suppress(Exception):
        injection.emit_left()
        kept = unkept or f"the receipt has what is known: labctl report {watch.submission_id}"
        injection.timeline.emit("note receipt", None, kept)


def _evidence(watch: Watch, injection: Injection, on_moment: OnMoment) -> Evidence:
    """All that is known once the job has ended.

    One that died with its head is submitted again before, one that was preempted followed through its turns.
    """
    if injection.undone:
        _wait_until_whole(watch, injection)
    problems, expected = list(injection.problems), injection.record().expected
    if expected is Expected.PREEMPTED:
        return preempted(watch, injection.record(), on_moment, problems)
    if expected in (Expected.SICK, Expected.DOUBTED):
        return steered(watch, injection.record(), on_moment, problems)
    later: tuple[Watch, ...] = ()
    if expected is Expected.HEAD_LOST and not problems and died(watch) and watch.lab.view.spec().gcs_ft:
        try:
            later = (resubmit(watch, on_moment),)
        except LabError as error:
            problems.append(f"the job could not be submitted again: {error.message}")
    return gather(watch, injection.record(), problems, later=later)


def _wait_until_whole(watch: Watch, injection: Injection) -> None:
    """Wait WHOLE_SECONDS at most for the services, of which the receipt says how they are then."""

    def ill() -> str:
        try:
            services = watch.lab.status().services
        except LabError as error:
            why = f"the state of the services is not known: {error.message}"
        else:
            sick = [s for s in services if s.state is not State.HEALTHY]
            why = "; ".join(f"{s.service} is {s.state.value}" for s in sick)
        if why:
            said = f"{why}; it is given {WHOLE_SECONDS:g} s"
            injection.timeline.emit("waiting until whole", watch.clock(), said)
        return why

    settle(ill, lambda why: not why, timeout=WHOLE_SECONDS, clock=watch.clock)


__all__ = [
    "Aim",
    "Control",
    "FaultRequest",
    "Injection",
    "Moment",
    "OnMoment",
    "Outcome",
    "Patience",
    "Watch",
    "check_target",
    "ended",
    "gather",
    "inject",
    "inject_and_repeat",
    "keep",
    "live_job",
    "outages",
    "run_control",
    "take_aim",
]
