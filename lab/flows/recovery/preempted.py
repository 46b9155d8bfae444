"""A job that was preempted, or whose node fell ill: followed to its end, and what was recorded of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lab.api.queue import Attempt, Description, JobEvent, QueueEvent
from lab.api.receipt import ReceiptDocument
from lab.cluster.queues import OVER
from lab.errors import LabError, NotFoundError, RefusedError, WaitTimeoutError
from lab.evidence.ledger import Files, History
from lab.evidence.receipt import Evidence, Preemption, Steering, judge
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.model import FaultRecord
from lab.faults import find_fault
from lab.flows.recovery.collect_evidence import gather, keep
from lab.flows.recovery.control import Control, run_control
from lab.flows.recovery.patience import follow_to_end
from lab.flows.recovery.request import Moment, OnMoment
from lab.flows.recovery.watch import Watch
from lab.host.clock import WALL, Clock, settle
from lab.lab import Lab

PREEMPTION = "preemption"
"""The fault."""

TURN_SECONDS = 3600.0
"""Deadline for the job to be admitted again."""

PREEMPTOR = re.compile(r"\(UID: ([^,)]+)")
"""UID of the workload that another one was preempted for, in Kueue's message."""

SLACK_SECONDS = 1.0
"""The controller's clock and labctl's differ by less, as both run on one machine."""


def preempted(
    watch: Watch, record: FaultRecord, on_moment: OnMoment, problems: Sequence[str] = ()
) -> Evidence:
    """Follow the job until it has ended for good, and gather the evidence on its preemption."""
    all_problems, later = list(problems), []
    preemption: Preemption | None = None
    try:
        for turn in turns(watch, on_moment, record.at):
            later.append(turn)
        record, preemption = recorded(watch, record)
    except LabError as error:
        all_problems.append(f"the job could not be followed in its queue: {error.message}")
    return gather(watch, record, all_problems, later=later, preemption=preemption)


def receipts(
    lab: Lab, job: str, on_moment: OnMoment, *, control: bool = False, clock: Clock = WALL
) -> tuple[ReceiptDocument, ...]:
    """Judge every preemption of a queued job that has ended, the oldest first, and keep the receipts.

    `job` is its workload, its name or the id of an attempt. With `control` it is repeated undisturbed and
    compared. Raises NotFoundError; RefusedError for a job that has not ended or was never preempted; what
    run_control raises.
    """
    described = lab.queues.describe(job)
    if described.status not in OVER:
        raise RefusedError(
            f"job {described.workload} has not ended: it is {described.status}",
            f"labctl jobs logs -f {described.name}",
        )
    preemptions = list(of_events(described.events))
    if not preemptions:
        raise RefusedError(
            f"job {described.workload} was never preempted",
            f"to see what became of it: labctl report {described.name}",
        )
    seen = (attempt.submission_id for attempt in described.attempts_made if attempt.seen_at is not None)
    first, *later = [Watch(lab, submission_id, clock) for submission_id in seen]
    for watch in (first, *later):
        watch.poll()
    kind = find_fault(PREEMPTION).kind
    records = [
        FaultRecord(
            PREEMPTION, kind.scope.target, "", at, reverted_at=preemption.admitted_again_at,
            expected=kind.expected, traits=kind.traits,
        )
        for at, preemption in preemptions
    ]  # fmt: skip
    read: dict[str, Files] = {}
    evidence = [
        gather(
            first, record, later=later, read=read, preemption=named(lab, record.at, preemption),
            others=[other for other in records if other is not record],
        )
        for record, (_, preemption) in zip(records, preemptions, strict=True)
    ]  # fmt: skip
    compared: Control | None = None
    if control:
        history = History.of(evidence[0].events)
        compared = run_control(lab, first.submission_id, on_moment, history=history, clock=clock)
        evidence = [replace(unit, control=compared.history) for unit in evidence]
    made = [judge(unit) for unit in evidence]
    if compared is not None:
        made = [replace(receipt, control=compared.document()) for receipt in made]
    for receipt in made:
        if problem := keep(lab.store, receipt):
            on_moment(Moment("problem", None, problem))
    return tuple(made)


def turns(first: Watch, on_moment: OnMoment, at: float) -> Iterator[Watch]:
    """Watches on the later attempts of a job, each once it has ended. Raises WaitTimeoutError."""
    queues, job, number = first.lab.queues, first.submission_id, 1

    def has_moved(described: Description) -> bool:
        return described.status in OVER or _next(described, number) is not None

    while True:
        described = settle(lambda: queues.describe(job), has_moved, timeout=TURN_SECONDS, clock=first.clock)
        attempt = _next(described, number)
        if attempt is None:
            if described.status in OVER:
                return
            why = f"{described.reason}: {described.message}"
            raise WaitTimeoutError(
                f"job {job} was not admitted again within {TURN_SECONDS:.0f} s: {why}",
                f"labctl queue why {job}",
            )
        number, again = attempt.number, attempt.submission_id
        on_moment(Moment("admitted", attempt.admitted_at - at, f"admitted again, as job {again}"))
        watch = Watch(first.lab, again, first.clock)
        follow_to_end(watch)
        yield watch


def _next(described: Description, number: int) -> Attempt | None:
    """The attempt after this one, once Ray knows it."""
    return next((a for a in described.attempts_made if a.number > number and a.seen_at is not None), None)


def recorded(watch: Watch, record: FaultRecord) -> tuple[FaultRecord, Preemption | None]:
    """The fault with the time that the queues have for it, and what they recorded of it."""
    job = watch.lab.queues.describe(watch.submission_id)
    preemptions = (event for event in of_events(job.events) if event[0] >= record.at - SLACK_SECONDS)
    at, preemption = next(preemptions, (record.at, None))
    return replace(record, at=at), None if preemption is None else named(watch.lab, at, preemption)


def named(lab: Lab, at: float, preemption: Preemption) -> Preemption:
    """The preemption with the workload that it was for, which Kueue's message names by its UID."""
    if not preemption.by:
        return preemption
    rival = lab.queues.describe(preemption.by)
    admitted = (e.at for e in rival.events if e.event == "Admitted" and e.at >= at)
    return replace(
        preemption,
        by=rival.workload,
        by_queue=rival.cluster_queue or None,
        by_admitted_at=next(admitted, None),
    )


def of_events(events: Sequence[JobEvent]) -> Iterator[tuple[float, Preemption]]:
    """Times of a workload's preemptions, and what its events say of each; `by` is a UID still."""
    for index, event in enumerate(events):
        if event.event != "Preempted":
            continue
        later = events[index + 1 :]
        uid = PREEMPTOR.search(event.message)
        yield (
            event.at,
            Preemption(
                by=uid.group(1) if uid else None,
                by_queue=None,
                queue=event.cluster_queue,
                reason=event.reason,
                message=event.message,
                gave_way_at=next((e.at for e in later if e.event == "Requeued"), None),
                admitted_again_at=next((e.at for e in later if e.event == "Admitted"), None),
            ),
        )


STATES: Mapping[Expected, Sequence[str]] = {Expected.SICK: ("EVICT",), Expected.DOUBTED: ("WARN", "EVICT")}
"""Outcome -> states that show it."""


def steered(watch: Watch, record: FaultRecord, on_moment: OnMoment, problems: Sequence[str] = ()) -> Evidence:
    """Follow the job until it has ended for good, and gather what its node's health led to."""
    all_problems, later = list(problems), []
    steering: Steering | None = None
    try:
        attempts: Sequence[Attempt] = ()
        try:
            attempts = watch.lab.queues.describe(watch.submission_id).attempts_made
        except NotFoundError:  # a plain job: nobody moves it
            attempts = ()
        if attempts:
            for turn in turns(watch, on_moment, record.at):
                later.append(turn)
            attempts = watch.lab.queues.describe(watch.submission_id).attempts_made
        steering = steering_of(watch.lab.queues.events(), record, attempts)
    except LabError as error:
        all_problems.append(f"what the controller did is not known: {error.message}")
    return gather(watch, record, all_problems, later=later, health=steering)


def steering_of(
    events: Sequence[QueueEvent], record: FaultRecord, attempts: Sequence[Attempt]
) -> Steering | None:
    """The first bad health of the target after the fault, with what followed; None if there was none."""
    begin, target = record.at - SLACK_SECONDS, record.target
    mine = [e for e in events if e.at >= begin and e.message.startswith(f"{target} ")]
    states = STATES[record.expected]
    first = next((e for e in mine if e.event == "Health" and e.reason in states), None)
    if first is None:
        return None
    after = [e for e in mine if e.number >= first.number]
    shut = next((e for e in after if e.event == "NodeClosed"), None)
    opened = next((e for e in after if e.event == "NodeOpened"), None)
    reset = next((a for a in attempts if a.reset and (a.ended_at or 0.0) >= begin), None)
    return Steering(
        state=first.reason,
        message=first.message,
        noticed_at=first.at,
        avoided_at=None if shut is None else shut.at,
        until=None if opened is None else opened.at,
        reset=None if reset is None else reset.reset,
        reset_at=None if reset is None else reset.ended_at,
        charged=reset is not None and reset.charged,
    )
