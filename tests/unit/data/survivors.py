"""A job whose survivors go on: rank 0 is lost and replaced, rank 1 trains on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lab.evidence.ledger import Event
from lab.evidence.receipt import Evidence, FaultRecord, NodeRecord
from lab.faults import Scope, find_fault
from lab.topology import ServiceStatus, State
from tests.fakes.ledger import counted

AT = 20.0
STEP = 0.1
OLD, NEW, OTHER = 11, 12, 21
"""Process of rank 0 that is lost, the one that takes its place, and that of rank 1."""


def event(name: str, at: float, rank: int | None = None, **fields: Any) -> Event:
    return Event(name, at, "job", "run", 1, rank, "", fields)


def steps(rank: int, pid: int, first: int, began: float, count: int, ranks: int) -> Event:
    ms = [round(STEP * 1000)] * (count - 1)
    return event("steps", began, rank, pid=pid, first=first, began=began, ms=ms, ranks=ranks)


def workers(pid: int, node: str = "a") -> dict[str, Any]:
    return {"workers": [{"rank": 0, "node_id": node, "pid": pid}]}


def story() -> list[Event]:
    """Rank 0 dies at AT, rank 1 goes on 0.5 s later, rank 0 is back after 2 s at step 116."""
    both = [{"rank": 0, "node_id": "a", "pid": OLD}, {"rank": 1, "node_id": "b", "pid": OTHER}]
    return [*counted([
        event("run_started", 0.0, config={"epochs": 2}, num_workers=2, replica_groups=True),
        event("attempt_started", 1.0, workers=both),
        *(steps(0, OLD, 1, 10.0, 100, 2), steps(1, OTHER, 1, 10.0, 100, 2)),
        event("report", 15.0, 0, metrics={"epoch": 1}),
        event("checkpoint_saved", 15.1, 0, uri="s3://ray/run/checkpoint_1", files={}),
        event("checkpoint_committed", 15.2, uri="s3://ray/run/checkpoint_1", metrics={"epoch": 1}),
        event("step_discarded", AT + 0.05, 1, pid=OTHER, step=101, why="connection reset"),
        event("failure_detected", AT + 0.3),
        event("rank_given_up", AT + 0.3, **workers(OLD)),
        steps(1, OTHER, 101, AT + 0.5, 15, 1),
        event("rank_replaced", AT + 1.2, **workers(NEW)),
        event("healed", AT + 2.0, 0, pid=NEW, step=115, source="rank1"),
        *(steps(0, NEW, 116, AT + 2.0, 1, 1), steps(1, OTHER, 116, AT + 2.0, 1, 1)),
        *(steps(0, NEW, 117, AT + 2.1, 84, 2), steps(1, OTHER, 117, AT + 2.1, 84, 2)),
        event("state", AT + 2.1, 0, pid=NEW, step=117, sha256="5" * 64),
        event("state", AT + 2.1, 1, pid=OTHER, step=117, sha256="5" * 64),
        event("report", 40.0, 1, metrics={"epoch": 2}),
        event("run_finished", 41.0, error=None),
    ])]  # fmt: skip


def evidence(events: Sequence[Event], kind: str = "rank-kill", node_id: str = "a") -> Evidence:
    fault = find_fault(kind).kind
    record = FaultRecord(kind, "ray-worker-0", node_id, AT, AT + 1.0, {}, fault.expected, fault.traits)
    record = replace(record, pid=OLD if fault.scope is Scope.RANK else 0)
    return Evidence(
        submission_id="job",
        job_status="SUCCEEDED",
        fault=record,
        events=tuple(events),
        nodes=(NodeRecord("ray-worker-0", "a", True, 0.0), NodeRecord("ray-worker-1", "b", True, 0.0)),
        services=(ServiceStatus("ray-worker-0", State.HEALTHY),),
    )
