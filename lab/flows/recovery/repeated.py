"""A fault with a control run: the job that recovered is repeated undisturbed, and both are compared."""

from __future__ import annotations

from dataclasses import replace

from lab.errors import LabError, UsageError
from lab.evidence.ledger import History
from lab.faults import Scope, find_fault
from lab.flows.recovery import inject
from lab.flows.recovery.collect_evidence import keep
from lab.flows.recovery.control import refuse_fixed_names, run_control
from lab.flows.recovery.request import FaultRequest, Moment, OnMoment, Outcome
from lab.flows.recovery.trigger import live_job
from lab.host.clock import WALL, Clock
from lab.lab import Lab


def inject_and_repeat(
    lab: Lab, request: FaultRequest, on_moment: OnMoment, *, clock: Clock = WALL
) -> Outcome:
    """Like `inject`; the job is then repeated undisturbed, and the receipt has the comparison.

    Raises what `inject` raises, UsageError for a fault of the head, and RefusedError for a job that cannot be
    repeated, before anything is changed. A control run that fails is a moment of its own, a problem: the
    receipt is there.
    """
    from lab.evidence.receipt import judge

    kind = find_fault(request.kind).kind
    if kind.scope is Scope.CLUSTER:
        raise UsageError(
            f"{kind.name} with a control run: the job dies with its head and cannot be repeated",
            "leave --control out",
        )
    job = live_job(lab, request.job, "submit another one").submission_id
    refuse_fixed_names(job, lab.history(job))
    outcome = inject(lab, replace(request, job=job), on_moment, clock=clock)
    assert outcome.evidence is not None, "it was waited for"
    try:
        history = History.of(outcome.evidence.events)
        compared = run_control(lab, job, on_moment, history=history, clock=clock)
    except LabError as error:
        on_moment(Moment("problem control", None, f"no control run: {error.message}"))
        return outcome
    receipt = judge(replace(outcome.evidence, control=compared.history))
    receipt = replace(receipt, control=compared.document())
    if problem := keep(lab.store, receipt):
        on_moment(Moment("problem control", None, problem))
    return replace(outcome, receipt=receipt)
