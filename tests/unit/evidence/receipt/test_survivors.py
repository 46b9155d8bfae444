"""Receipts of trainings whose survivors go on: what they say of them, and of the rank that is back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lab.api.base import parse, plain
from lab.api.receipt import ReceiptDocument
from lab.evidence.ledger import Event, History
from lab.evidence.receipt import Verdict, judge
from lab.evidence.receipt.expected import Expected, Traits
from tests.fakes.ledger import counted
from tests.unit.data.stories import later
from tests.unit.data.survivors import AT, NEW, OLD, OTHER, event, evidence, steps, story


def wrong(events: Sequence[Event]) -> set[str]:
    return {check.name for check in judge(evidence(events)).checks if not check.passed}


def test_a_rank_was_lost_the_other_went_on_and_all_ended_the_same() -> None:
    receipt = judge(evidence(story()))
    assert receipt.verdict is Verdict.AS_EXPECTED
    assert receipt.expected.outcome == Expected.SURVIVED
    assert {check.name for check in receipt.checks if not check.passed} == set()
    document = plain(receipt)
    assert plain(parse(ReceiptDocument, document, "receipt")) == document
    assert document["survivors"] == {
        "longest_gap": 0.6,
        "full_strength": 2.1,
        "ranks": [{"rank": 1, "longest_gap": 0.6, "steps_alone": 16}],
        "rejoined": [{"rank": 0, "after": 2.0, "step": 116, "source": "rank1"}],
    }
    assert document["lost_epochs"] == 0


def test_an_attempt_goes_on_after_the_loss_of_one_of_its_ranks() -> None:
    (run,) = History.of(story()).runs
    (attempt,) = run.attempts
    assert attempt.failure_detected_at is None
    assert attempt.failures == (AT + 0.3,)
    assert (attempt.pids, attempt.nodes) == ({0: NEW, 1: OTHER}, {0: "a", 1: "b"})
    assert [report.progress for report in attempt.reports] == [1, 2]  # whichever rank reported
    moved = replace(attempt, nodes={0: "c", 1: "b"})
    assert moved.nodes_at(AT) == {0: "a", 1: "b"}
    assert moved.nodes_at(AT + 5.0) == {0: "c", 1: "b"}
    assert attempt.pids_at(AT) == {0: OLD, 1: OTHER}
    assert attempt.pids_at(AT + 5.0) == {0: NEW, 1: OTHER}


def without(name: str, rank: int | None = None) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [*counted(e for e in events if not (e.event == name and rank in (None, e.rank)))]


def changed(name: str, rank: int, at: float, **fields: Any) -> Callable[[list[Event]], list[Event]]:
    def change(events: list[Event]) -> list[Event]:
        return [
            replace(e, fields={**e.fields, **fields}) if (e.event, e.rank, e.at) == (name, rank, at) else e
            for e in events
        ]

    return change


def stopped(events: list[Event]) -> list[Event]:
    return [*counted(e for e in events if not (e.event == "steps" and e.rank == 1 and e.at > AT))]


@pytest.mark.parametrize(
    ("happened", "not_passed"),
    [
        (stopped, {"survivors went on"}),
        (without("healed"), {"rejoined", "equal ranks"}),
        (without("state", 0), {"equal ranks"}),
        (changed("state", 0, AT + 2.1, sha256="6" * 64), {"equal ranks"}),
        (changed("steps", 0, AT + 2.1, first=90), {"nothing repeated"}),
    ],
)
def test_what_went_wrong_is_found(
    happened: Callable[[list[Event]], list[Event]], not_passed: set[str]
) -> None:
    assert wrong(happened(story())) == not_passed


def moved(events: list[Event], name: str, rank: int, since: float, by: float) -> list[Event]:
    """These events of a rank come later."""
    return [later(e, by) if (e.event, e.rank) == (name, rank) and e.at >= since else e for e in events]


def all_stood_still(events: list[Event]) -> list[Event]:
    """Nobody steps for 30 s; then rank 1 takes one step alone, and both go on."""
    halted = [e for e in events if not (e.event == "steps" and e.rank == 1 and e.at == AT + 0.5)]
    for name, rank in (("steps", 0), ("steps", 1), ("healed", 0), ("state", 0), ("state", 1)):
        halted = moved(halted, name, rank, AT, 30.0)
    halted.append(steps(1, OTHER, 101, AT + 31.9, 15, 1))
    return [*counted(halted)]


def test_survivors_that_waited_for_the_lost_rank_did_not_go_on() -> None:
    assert wrong(all_stood_still(story())) == {"survivors went on"}


def slow(step: float, still: float) -> str:
    """All ranks' steps take so long, and none is taken from the fault until the lost rank is back."""

    def taken(rank: int, pid: int, first: int, began: float) -> Event:
        ms = [round(step * 1000)] * 9
        return event("steps", began, rank, pid=pid, first=first, began=began, ms=ms, ranks=2)

    before, back = AT - 0.5 - 9 * step, AT + still
    events = [e for e in story() if e.event not in ("steps", "healed", "state", "step_discarded")]
    events += [taken(0, OLD, 91, before), taken(1, OTHER, 91, before)]
    events += [taken(0, NEW, 101, back), taken(1, OTHER, 101, back)]
    events += [event("healed", back, 0, pid=NEW, step=100, source="rank1")]
    events += [
        event("state", back, rank, pid=pid, step=101, sha256="5") for rank, pid in ((0, NEW), (1, OTHER))
    ]
    return judge(evidence(counted(events))).verdict.value


@pytest.mark.parametrize(
    ("step", "still", "verdict"),
    [(10.0, 9.0, "as-expected"), (10.0, 29.0, "not-verified"), (0.1, 29.0, "failed")],
)
def test_survivors_of_slow_steps_that_took_none_alone_may_have_waited(
    step: float, still: float, verdict: str
) -> None:
    assert slow(step, still) == verdict


def test_a_rank_that_dropped_out_before_it_was_lost_came_back_only_once() -> None:
    """Under load it was left out for a moment, and healed by a step right after the kill's first signal."""
    early = event("healed", AT + 0.01, 0, pid=OLD, step=100, source="rank1")
    survivors = plain(judge(evidence(counted([*story(), early]))))["survivors"]
    assert survivors["rejoined"] == [{"rank": 0, "after": 2.0, "step": 116, "source": "rank1"}]


def test_steps_of_a_new_process_before_it_has_the_others_state_are_void() -> None:
    alone = steps(0, NEW, 1, AT + 1.5, 1, 1)
    assert wrong([*counted([*story(), alone])]) == set()
    later = steps(0, NEW, 1, AT + 12.0, 1, 1)
    assert wrong([*counted([*story(), later])]) == {"nothing repeated"}


def test_a_new_process_may_have_the_number_of_the_lost_one_on_another_node() -> None:
    """Each container counts its processes from 1."""
    alone = steps(0, NEW, 1, AT + 1.5, 1, 1)
    there = [
        replace(e, node_id="c", fields={**e.fields, "pid": OLD}) if e.fields.get("pid") == NEW else e
        for e in [*story(), alone]
    ]
    assert wrong([*counted(there)]) == set()


def store_away(*lost: str) -> ReceiptDocument:
    """The store is away while rank 0 is lost and replaced, without these events."""
    given = evidence(counted(e for e in story() if e.event not in lost), "s3-down", "")
    return judge(replace(given, fault=replace(given.fault, store_refusals=3), stored={}))


def test_a_rank_that_a_fault_of_the_store_cost_must_come_back() -> None:
    back = next(c for c in store_away().checks if c.name == "went on")
    assert back.passed, back.detail
    for lost in (("rank_replaced", "healed"), ("healed",), ("report", "healed")):
        missed = next(c for c in store_away(*lost).checks if c.name == "went on")
        assert (missed.passed, missed.known) == (False, False)
        assert missed.detail == "rank 0 was given up after the fault, and is not known to have come back"


def test_a_fault_that_left_nobody_out_proves_nothing() -> None:
    events = counted(e for e in story() if e.event not in ("rank_given_up", "rank_replaced", "healed"))
    receipt = judge(evidence(events))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "no rank was left out" in receipt.reason


def test_the_loss_of_every_rank_is_no_survival() -> None:
    events = [replace(e, fields={**e.fields, "workers": [
        {"rank": rank, "node_id": "a", "pid": pid} for rank, pid in ((0, OLD), (1, OTHER))
    ]}) if e.event == "attempt_started" else e for e in story()]  # fmt: skip
    assert judge(evidence(events, "kill")).expected.outcome == Expected.NODE_LOST


def test_without_replica_groups_a_fault_keeps_its_outcome() -> None:
    events = changed("run_started", 0, 0.0)(story())
    events[0] = replace(events[0], fields={**events[0].fields, "replica_groups": False})
    assert judge(evidence(events)).expected.outcome == Expected.RANK_LOST


def test_a_rank_that_went_on_after_the_fault_was_over_was_lost_of_something_else() -> None:
    given = evidence(story())
    early = replace(given.fault, kind="rank-hang", at=AT - 1.0, reverted_at=AT - 0.5, traits=Traits("hung"))
    receipt = judge(replace(given, fault=early))
    assert receipt.verdict is Verdict.NOT_VERIFIED
    assert "rank 0 went on after the fault was over" in receipt.reason
    longer = judge(replace(given, fault=replace(early, reverted_at=AT + 9.0)))
    assert "went on after the fault was over" not in longer.reason
