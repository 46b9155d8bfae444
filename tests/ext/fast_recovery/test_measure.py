"""What a lost rank cost, from the ledger: when all start again, when one goes on alone, when nobody stops."""

from __future__ import annotations

from typing import Any

import pytest

from lab.errors import JobError
from lab.evidence.ledger import Event
from lab.evidence.receipt import FaultRecord
from lab.ext.fast_recovery.ladder.measure import measure, within
from tests.unit.data import survivors

AT = 20.0
FAULT = FaultRecord("rank-kill", "ray-worker-1", "b", AT)
NODES = {0: "a", 1: "b"}


def event(name: str, at: float, attempt: int = 1, rank: int | None = None, **fields: Any) -> Event:
    node = "" if rank is None else NODES[rank]
    return Event(name, at, "job", "run", attempt, rank, node, fields)


def steps(attempt: int, rank: int, first: int, began: float, count: int, ranks: int = 2) -> Event:
    pid = 10 * attempt + rank
    return event(
        "steps", began, attempt, rank, pid=pid, first=first, began=began, ms=[100] * (count - 1), ranks=ranks
    )


def started(attempt: int, at: float, *ranks: int) -> Event:
    workers = [{"rank": rank, "node_id": NODES[rank], "pid": 10 * attempt + rank} for rank in ranks]
    return event("attempt_started", at, attempt, workers=workers)


def again() -> list[Event]:
    """Both ranks took 100 steps when rank 1 was lost; both begin again with step 81, three seconds later."""
    saved = {"uri": "s3://ray/run/c", "files": {"a": {"size": 900, "sha256": "x"}, "b": {"size": 100}}}
    return [
        event("run_started", 0.0, config={}, num_workers=2),
        started(1, 5.0, 0, 1),
        *(steps(1, rank, 1, 10.05, 100) for rank in (0, 1)),
        event("checkpoint_saved", 18.0, 1, 0, **saved),
        event("report", 18.1, 1, 0, metrics={"step": 80, "sent_bytes": 4000}),
        event("report", 19.1, 1, 0, metrics={"step": 90, "sent_bytes": 5000}),
        event("report", 18.1, 1, 1, metrics={"step": 80, "sent_bytes": 3000}),
        event("failure_detected", AT + 0.7),
        started(2, AT + 2.0, 0, 1),
        *(steps(2, rank, 81, AT + 3.0 + rank / 10, 50) for rank in (0, 1)),
        event("report", 24.0, 2, 0, metrics={"step": 100, "sent_bytes": 200}),
    ]  # fmt: skip


def test_a_training_that_starts_again_stands_still_and_repeats() -> None:
    cost = measure(again(), FAULT)
    assert cost.detected == pytest.approx(0.7)
    assert cost.longest_gap == pytest.approx(3.05)
    assert cost.all_back == pytest.approx(3.1)
    assert cost.steps_repeated == 20
    assert (cost.stored_bytes, cost.sent_bytes) == (1000, 8200)
    assert cost.steps_per_second == pytest.approx(10.0)
    lost, kept = cost.rows[1], cost.rows[0]
    assert lost.gap is None
    assert kept.gap == pytest.approx((-0.05, 3.0))
    assert len(within(kept, -1.0, 4.0).together) == 10 + 11


def test_a_lost_rank_is_drawn_before_the_fault_by_the_steps_that_others_took_with_it() -> None:
    last_of_lost = AT - 2.95
    unwritten = [
        steps(1, 1, 1, 10.05, 70) if e.event == "steps" and (e.attempt, e.rank) == (1, 1) else e
        for e in again()
    ]
    rows = measure(unwritten, FAULT).rows
    assert [len(within(row, -8.95, 0.0).together) for row in rows] == [90, 90]
    assert rows[0].together[:100] == pytest.approx(rows[1].together[:100])
    assert any(at > last_of_lost - AT for at in rows[1].together if at < 0)


def test_seconds_count_from_the_last_step_of_all_since_the_order_to_kill_takes_a_while() -> None:
    cost = measure(again(), FaultRecord("rank-kill", "ray-worker-1", "b", AT - 0.9))
    assert cost.longest_gap == pytest.approx(3.05)
    assert cost.detected == pytest.approx(0.75)
    assert cost.all_back == pytest.approx(3.15)


def test_an_elastic_training_is_whole_only_once_it_has_grown_again() -> None:
    events = [e for e in again() if e.attempt == 1 or e.event == "failure_detected"]
    events += [
        started(2, AT + 1.0, 0), steps(2, 0, 81, AT + 1.5, 20, ranks=1),
        started(3, AT + 8.0, 0, 1), *(steps(3, rank, 91, AT + 9.0, 20) for rank in (0, 1)),
    ]  # fmt: skip
    cost = measure(events, FAULT)
    assert cost.all_back == pytest.approx(9.0)
    assert cost.longest_gap == pytest.approx(9.0 - 3.4)  # until it has grown, not only until it goes on
    assert cost.steps_repeated == 20 + 10
    assert len(cost.rows[0].alone) == 20


def test_with_torchft_nobody_stands_still_for_long_and_nothing_is_repeated() -> None:
    cost = measure(survivors.story(), FaultRecord("rank-kill", "ray-worker-0", "a", survivors.AT))
    assert cost.longest_gap == pytest.approx(0.6)
    assert cost.all_back == pytest.approx(2.1)
    assert cost.detected == pytest.approx(0.3)
    assert cost.steps_repeated == 0


def test_ranks_that_never_come_back_are_not_all_back() -> None:
    events = [e for e in again() if not (e.attempt == 2 and e.rank == 1)]
    assert measure(events, FAULT).all_back is None


def test_a_ledger_without_steps_measures_nothing() -> None:
    with pytest.raises(JobError, match="no step of the training"):
        measure([e for e in again() if e.event != "steps"], FAULT)
