"""A job whose node fell ill: followed from attempt to attempt, and what the controller recorded of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.api.queue import Attempt, QueueEvent
from lab.errors import LabError, NotFoundError
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.model import FaultRecord
from lab.flows.recovery.collect_evidence import gather
from lab.flows.recovery.preempted import SLACK_SECONDS, turns
from lab.flows.recovery.request import OnMoment
from lab.flows.recovery.watch import Watch

if TYPE_CHECKING:
    from lab.evidence.receipt import Evidence, Steering

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
        steering = of_events(watch.lab.queues.events(), record, attempts)
    except LabError as error:
        all_problems.append(f"what the controller did is not known: {error.message}")
    return gather(watch, record, all_problems, later=later, health=steering)


def of_events(
    events: Sequence[QueueEvent], record: FaultRecord, attempts: Sequence[Attempt]
) -> Steering | None:
    """The first bad health of the target after the fault, with what followed; None if there was none."""
    from lab.evidence.receipt import Steering

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
        reset="" if reset is None else reset.reset,
        reset_at=None if reset is None else reset.ended_at,
        charged=reset is not None and reset.charged,
    )
