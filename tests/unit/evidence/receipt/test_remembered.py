"""Receipts of trainings whose state came from a neighbour's memory: they claim no checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.api.base import parse, plain
from lab.api.receipt import ReceiptDocument
from lab.evidence.ledger import Event, History
from lab.evidence.receipt import Verdict, headline, judge
from lab.evidence.receipt.expected import Expected
from lab.faults import find_fault
from tests.fakes.ledger import counted
from tests.unit.data.stories import FAULT_KILL, Story, event, evidence, state, tensors


def story(done: tuple[int, int] = (7, 17)) -> Story:
    """Reports at steps 10, 20 and 30, a loss, and a new attempt that has `done` so many when it reports."""
    return Story(
        first=(10, 20, 30), second=(40, 50), key="step", config={"steps": 50},
        counted=((10, 20, 30), done), loads=(30,),
    )  # fmt: skip


def recorded(
    tale: Story, step: int = 33, *, given: bool = True, weights: Any = "loaded"
) -> tuple[Event, ...]:
    """The events of a story in which the second attempt says that its state is from memory.

    `given`: a keeper has recorded that. `weights`: what the attempt begins with, else that state.
    """
    begun = step if weights == "loaded" else weights
    events = [_named(event, step, begun) for event in tale.events()]
    if given:
        events.append(
            event(
                "state_given", 10.25, 0, step=step, source="ray-worker-1", sha256="5" * 64,
                tensors=tensors(step),
            )
        )  # fmt: skip
    return counted(events)


def _named(event: Event, step: int, begun: Any) -> Event:
    fields: dict[str, Any] = dict(event.fields)
    if event.event == "report" and event.attempt == 2:
        memory = {"resumed_step": step, "resumed_from": "memory of ray-worker-1"}
        fields["metrics"] = {**fields["metrics"], **memory}
    if event.event == "state_begun" and event.attempt == 2:
        fields |= state(begun)
    if event.event == "attempt_started":
        fields["workers"] = [{**row, "pid": event.attempt} for row in fields["workers"]]
    return replace(event, fields=fields)


def receipt(events: tuple[Event, ...], kind: str = "rank-kill") -> ReceiptDocument:
    about = find_fault(kind).kind
    fault = replace(FAULT_KILL, kind=kind, expected=about.expected, traits=about.traits)
    return judge(evidence(events=events, fault=fault))


@pytest.mark.parametrize("kind", ["rank-kill", "kill"])
def test_training_recovered_from_memory_and_no_checkpoint_is_claimed(kind: str) -> None:
    judged = receipt(recorded(story()), kind)
    assert judged.verdict is Verdict.RECOVERED, judged.reason
    assert judged.expected.outcome == Expected.REMEMBERED
    document = plain(judged)
    assert plain(parse(ReceiptDocument, document, "receipt")) == document
    assert document["checkpoint"] is None
    assert headline(judged) == "recovered from memory"
    checks = {check.name: check.detail for check in judged.checks}
    assert checks["newest state"].startswith(
        "attempt 2 got the state of step 33 from the memory of ray-worker-1"
    )
    assert checks["same state"].startswith("rank 0 of attempt 2 began with the state from ray-worker-1")
    assert checks["resumed, not restarted"] == "attempt 2 began with step 34, its state is of 33"
    assert "right checkpoint" not in checks
    assert document["lost_work"]["amount"] == 0


@pytest.mark.parametrize(
    ("step", "done", "wrong"),
    [
        (33, (5, 15), "resumed, not restarted"),  # it trained from another step than it says
        (25, (15, 25), "newest state"),  # the checkpoint of step 30 was newer
    ],
)
def test_a_state_that_was_not_the_newest_or_another_one_is_found(
    step: int, done: tuple[int, int], wrong: str
) -> None:
    judged = receipt(recorded(story(done=done), step))
    assert judged.verdict is Verdict.FAILED
    assert wrong in {check.name for check in judged.checks if not check.passed}


def test_a_script_that_says_so_and_was_given_nothing_is_judged_by_its_checkpoint() -> None:
    judged = receipt(recorded(story(), given=False, weights=30))
    assert judged.expected.outcome == Expected.RANK_LOST
    assert judged.verdict is Verdict.FAILED
    assert "began with step 34, its checkpoint is of step 30" in judged.reason


@pytest.mark.parametrize(("weights", "verdict"), [(0, Verdict.FAILED), (30, Verdict.NOT_VERIFIED)])
def test_a_state_that_was_given_and_not_taken_is_found(weights: int, verdict: Verdict) -> None:
    judged = receipt(recorded(story(), weights=weights))
    assert judged.verdict is verdict
    assert "same state" in {check.name for check in judged.checks if not check.passed}


def test_an_attempt_that_was_given_nothing_goes_on_from_its_checkpoint() -> None:
    events = recorded(story(done=(10, 20)), 30, given=False)
    (run,) = History.of(events).runs
    assert run.given == ()
    judged = receipt(events)
    assert judged.expected.outcome == Expected.RANK_LOST
    assert judged.verdict is Verdict.RECOVERED, judged.reason
    assert judged.checkpoint is not None


@pytest.mark.parametrize("step", [25, 33])
def test_an_attempt_may_leave_a_state_that_it_is_given_and_go_on_from_its_checkpoint(step: int) -> None:
    judged = receipt(recorded(story(done=(10, 20)), step, weights=30))
    assert (judged.verdict, judged.expected.outcome) == (Verdict.RECOVERED, Expected.RANK_LOST), judged.reason
    assert judged.checkpoint is not None


@pytest.mark.parametrize(("weights", "verdict"), [(33, Verdict.RECOVERED), (30, Verdict.NOT_VERIFIED)])
def test_a_state_that_a_keeper_gave_at_another_time_by_its_own_clock_is_known_by_the_weights(
    weights: int, verdict: Verdict
) -> None:
    late = [
        replace(e, at=e.at + 9.0) if e.event == "state_given" else e
        for e in recorded(story(), weights=weights)
    ]
    assert receipt(tuple(late)).verdict is verdict
