"""Stages of a recovery."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lab.evidence.ledger import History, Run, parse_events
from lab.evidence.receipt.breakdown import Breakdown, breakdown

AT = 100.0
STAGES = ["detect", "decide", "place", "start", "import", "load", "first_step", "report"]
URI = "s3://ray/run/checkpoint_3"


def event(name: str, at: float, attempt: int = 2, rank: int | None = None, **fields: Any) -> dict[str, Any]:
    return {
        **{"schema": "ledger/1", "event": name, "at": AT + at, "job": "j", "run": "r", "attempt": attempt},
        **({} if rank is None else {"rank": rank}),
        **fields,
    }


def report(at: float, epoch: int, attempt: int = 2, rank: int = 0) -> dict[str, Any]:
    return event("report", at, attempt, rank, metrics={"epoch": epoch}, checkpoint=None)


def workers(*ranks: int) -> list[dict[str, Any]]:
    return [{"rank": rank, "node_id": f"n{rank}", "pid": rank} for rank in ranks]


COLD = [
    event("attempt_started", -60, 1, workers=workers(0)),
    report(-5, 3, 1),
    event("checkpoint_committed", -4, 1, uri=URI, metrics={"epoch": 3}),
    event("failure_detected", 1, 1, decision="RETRY"),
    event("attempt_scheduled", 1.25),
    event("rank_ready", 3.75, rank=0, launched_at=AT + 1.75),
    event("attempt_started", 3.8, workers=workers(0)),
    event("function_started", 7.75, rank=0),
    event("get_checkpoint", 7.8, rank=0, uri=URI),
    event("checkpoint_loaded", 8.25, rank=0, uri=URI, files={}),
    event("state_begun", 8.375, rank=0, gradients=True),
    report(9.25, 4),
    report(9.5, 5),
]


def run_of(events: list[dict[str, Any]]) -> Run:
    return History.of(parse_events(json.dumps(event) for event in events)).runs[0]


def of(events: list[dict[str, Any]]) -> Breakdown | None:
    run = run_of(events)
    return breakdown(run, run.attempts[0], run.attempts[1], AT)


def seconds(*values: float) -> Breakdown:
    return dict(zip(STAGES, values, strict=True))


def total(events: list[dict[str, Any]]) -> float:
    return sum(filter(None, (of(events) or {}).values()))


def without(name: str, attempt: int = 2) -> list[dict[str, Any]]:
    return [event for event in COLD if (event["event"], event["attempt"]) != (name, attempt)]


def test_each_stage_has_its_seconds_and_they_add_up() -> None:
    assert of(COLD) == seconds(1.0, 0.25, 0.5, 2.0, 4.0, 0.5, 0.125, 0.875)
    assert total(COLD) == 9.25


def test_a_process_that_stood_by_needs_no_place() -> None:
    warm = [{**event, "launched_at": AT - 30} if event["event"] == "rank_ready" else event for event in COLD]
    assert of(warm) == seconds(1.0, 0.25, 0.0, 2.5, 4.0, 0.5, 0.125, 0.875)


def test_a_stage_of_several_ranks_ends_with_the_last() -> None:
    more = [
        *without("attempt_started"),
        event("attempt_started", 3.8, workers=workers(0, 1)),
        event("rank_ready", 4.75, rank=1, launched_at=AT - 30),
        event("function_started", 7.0, rank=1),
        event("checkpoint_loaded", 8.5, rank=1, uri=URI, files={}),
        event("state_begun", 9.0, rank=1, gradients=True),
    ]
    assert of(more) == seconds(1.0, 0.25, 0.5, 3.0, 3.0, 0.75, 0.5, 0.25)


@pytest.mark.parametrize(
    ("missing", "unknown"),
    [
        ("attempt_scheduled", {"decide", "place"}),
        ("rank_ready", {"place", "start"}),
        ("function_started", {"import"}),
        ("checkpoint_loaded", {"load"}),
        ("state_begun", {"first_step"}),
    ],
)
def test_seconds_of_an_unknown_stage_are_in_the_next(missing: str, unknown: set[str]) -> None:
    breakdown = of(without(missing))
    assert breakdown is not None
    assert {name for name, known in breakdown.items() if known is None} == unknown
    assert total(without(missing)) == pytest.approx(9.25)


def test_a_rank_that_says_nothing_leaves_its_stage_unknown() -> None:
    more = [*without("attempt_started"), event("attempt_started", 3.8, workers=workers(0, 1))]
    breakdown = of(more)
    assert breakdown is not None
    assert [breakdown[stage] for stage in ("start", "import", "first_step")] == [None] * 3


def test_a_clock_that_lags_makes_no_negative_stage() -> None:
    early = [{**event, "at": AT + 0.5} if event["event"] == "rank_ready" else event for event in COLD]
    breakdown = of(early)
    assert breakdown is not None
    assert breakdown["start"] == 0.0
    assert total(early) == pytest.approx(9.25)


def test_a_load_after_the_first_report_is_not_the_resume() -> None:
    late = [*COLD, event("checkpoint_loaded", 12.0, rank=0, uri=URI, files={})]
    assert of(late) == of(COLD)


def test_there_is_none_without_a_new_report_or_a_failure_after_the_fault() -> None:
    assert of([event for event in COLD if not (event["event"] == "report" and event["attempt"] == 2)]) is None
    assert of(without("failure_detected", 1)) is None
    run = run_of(COLD)
    earlier = replace(run.attempts[0], failure_detected_at=AT - 1)
    assert breakdown(run, earlier, run.attempts[1], AT) is None


def test_as_json_it_has_every_stage_in_order() -> None:
    breakdown = of(COLD)
    assert breakdown is not None
    assert list(breakdown) == STAGES
