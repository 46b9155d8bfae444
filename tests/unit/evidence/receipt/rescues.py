"""Trainings of torchft that are made up: what became of the ranks, and the evidence that a lab would have.

A `Rescue` is what happened. `as_expected` is the axiom of survivors in docs/recovery.md, asked of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from lab.evidence.ledger import Event
from lab.evidence.receipt import Evidence, FaultRecord, NodeRecord
from lab.faults import Scope, find_fault
from lab.topology import ServiceStatus, State
from tests.fakes.ledger import counted
from tests.unit.data.stories import event, later
from tests.unit.evidence.receipt.tales import SKEW

AT, BEGAN, END = 20.0, 10.0, 45.0
STEP, NOTICED = 0.1, 0.5
"""Seconds that a step takes, and that pass until survivors take one without a lost rank."""


@dataclass(frozen=True)
class Rescue:
    """A training whose rank 0 is lost, on node a, while the others are on node b. Times in seconds."""

    kind: str = "rank-kill"
    ranks: int = 2
    absence: float = 4.0
    """Time from its loss until it is back."""
    still: float = 0.0
    """Part of that in which the others stand still; of the rest they step alone."""
    later: float = 0.0
    """It is lost so long after the fault, which was over by then: of something else."""
    returns: bool = True
    heals: bool = True
    """It is given the state of a neighbour; else it begins with its first steps again."""
    differs: bool = False
    """Its state is another one all the same."""
    wakes: bool = False
    """It was frozen, and goes on in the process that it had."""
    again: int = 0
    """Steps that all take again once it is back."""
    saved: bool = True
    """There was a checkpoint before the fault."""
    drops: bool = False
    """It had dropped out for a moment, and been healed, before the fault."""
    alone: bool = False
    """Its new process takes a step of its own before it is healed."""
    unwritten: bool = False
    """What it did last was not written."""
    clocks: tuple[float, float] = (0.0, 0.0)
    """Seconds by which the clocks of both nodes are ahead."""

    def as_expected(self) -> bool:
        """Survivors went on, the lost rank is back with the state of one of them, nothing was done twice."""
        back = self.returns and self.heals and not self.differs and not self.again
        return self.saved and back and not self.still and not self.later


def draw_rescue(random: Random) -> Rescue:
    """A rescue that goes well, or goes wrong in one way or two."""
    wrong: list[dict[str, Any]] = [
        {"still": 1.0}, {"still": 0.8}, {"returns": False}, {"heals": False}, {"differs": True},
        {"again": random.randint(1, 20)}, {"saved": False}, {"kind": "rank-hang", "later": 4.0},
    ]  # fmt: skip
    kind = random.choice(("rank-kill", "kill", "rank-hang"))
    rescue = Rescue(
        kind=kind,
        ranks=random.choice((2, 3)),
        absence=random.uniform(4.0, 12.0),
        wakes=kind == "rank-hang" and random.random() < 0.5,
        drops=random.random() < 0.2,
        alone=random.random() < 0.2,
        unwritten=random.random() < 0.2,
        clocks=(random.choice((0.0, random.uniform(-SKEW, SKEW))), random.uniform(-SKEW, SKEW)),
    )
    for change in random.sample(wrong, random.choice((0, 0, 1, 1, 2))):
        rescue = replace(rescue, **change)
    return rescue


def evidence_of(rescue: Rescue) -> Evidence:
    """What a lab would know of it."""
    kind = find_fault(rescue.kind).kind
    fault = FaultRecord(rescue.kind, "ray-worker-0", "a", AT, AT + 1.0, {}, kind.expected, kind.traits)
    fault = replace(fault, pid=10 if kind.scope is Scope.RANK else 0)
    killed = rescue.kind == "kill"
    nodes = [
        NodeRecord("ray-worker-0", "a", not killed, 0.0, AT + 0.3 if killed else None),
        NodeRecord("ray-worker-1", "b", True, 0.0),
    ]
    return Evidence(
        submission_id="job",
        job_status="SUCCEEDED",
        fault=fault,
        events=_shown(_events(rescue), rescue.clocks),
        nodes=(*nodes, NodeRecord("ray-worker-0", "a2", True, AT + 1.0)) if killed else tuple(nodes),
        services=(ServiceStatus("ray-worker-0", State.HEALTHY),),
    )


def _shown(events: Sequence[Event], clocks: tuple[float, float]) -> tuple[Event, ...]:
    """By the clocks of those who wrote them."""
    ahead = {"a": clocks[0], "a2": clocks[0], "b": clocks[1]}
    return tuple(later(e, ahead.get(e.node_id, 0.0)) for e in counted(events))


def _events(rescue: Rescue) -> list[Event]:
    lost_at = AT + rescue.later
    back_at = lost_at + rescue.absence if rescue.returns else END
    before = round((lost_at - BEGAN) / STEP)
    alone_from = lost_at + max(NOTICED, rescue.still * rescue.absence)
    alone = max(0, round((back_at - alone_from) / STEP))
    joined = before + alone + 1 - rescue.again
    together = round((END - back_at) / STEP)
    home = "a2" if rescue.kind == "kill" else "a"
    old = _Rank(0, "a", 10)
    new = old if rescue.wakes else _Rank(0, home, 11)
    others = [_Rank(rank, "b", 20 + rank) for rank in range(1, rescue.ranks)]
    events = [*_controller(rescue, lost_at, back_at, new)]
    events += old.steps(1, BEGAN, before - (3 if rescue.unwritten else 0), rescue.ranks)
    events += [old.event("healed", BEGAN + 2.0, step=20, source="rank1")] if rescue.drops else []
    for other in others:
        events += other.steps(1, BEGAN, before, rescue.ranks)
        events += other.steps(before + 1, alone_from, alone, rescue.ranks - 1)
        events += other.steps(joined, back_at, together, rescue.ranks)
    if not rescue.returns:
        return events
    if rescue.alone and not rescue.wakes:
        events += new.steps(1, back_at - 1.0, 1, 1)
    if rescue.heals:
        events += [new.event("healed", back_at, step=joined - 1, source="rank1")]
    events += new.steps(joined if rescue.heals else 1, back_at, together, rescue.ranks)
    for rank in (new, *others):
        sha256 = "6" * 64 if rescue.differs and rank is new else "5" * 64
        events += [rank.event("state", back_at + STEP, step=joined + 1, sha256=sha256)]
    return events


def _controller(rescue: Rescue, lost_at: float, back_at: float, new: _Rank) -> list[Event]:
    ranks = [
        {"rank": r, "node_id": "b" if r else "a", "pid": 20 + r if r else 10} for r in range(rescue.ranks)
    ]
    last = _Rank(1, "b", 21)
    saved: dict[str, Any] = {"uri": "s3://ray/run/checkpoint_1", "metrics": {"epoch": 1}}
    events = [
        event("run_started", 0.0, 0, config={"epochs": 2}, num_workers=rescue.ranks, replica_groups=True),
        event("attempt_started", 1.0, workers=ranks),
        _Rank(0, "a", 10).event("report", BEGAN + 5.0, metrics={"epoch": 1}),
        last.event("report", END + 1.0, metrics={"epoch": 2}),
        event("run_finished", END + 2.0, error=None),
    ]
    if rescue.saved:
        events += [_Rank(0, "a", 10).event("checkpoint_saved", BEGAN + 5.1, files={}, **saved)]
        events += [event("checkpoint_committed", BEGAN + 5.2, **saved)]
    if not rescue.wakes:
        events += [event("failure_detected", lost_at + 0.3)]
        events += [event("rank_given_up", lost_at + 0.3, workers=ranks[:1])]
    if rescue.returns and not rescue.wakes:
        worker = {"rank": 0, "node_id": new.node, "pid": new.pid}
        events += [event("rank_replaced", back_at - 1.2, workers=[worker])]
    return events


@dataclass(frozen=True)
class _Rank:
    """A process of a rank."""

    rank: int
    node: str
    pid: int

    def event(self, name: str, at: float, **fields: Any) -> Event:
        return Event(name, at, "job", "run", 1, self.rank, self.node, {"pid": self.pid, **fields})

    def steps(self, first: int, began: float, count: int, ranks: int) -> list[Event]:
        """Consecutive steps, at most fifty to an event, which is written with the last of them."""
        events = []
        while count > 0:
            here = min(count, 50)
            fields = {"first": first, "began": began, "ms": [round(STEP * 1000)] * (here - 1), "ranks": ranks}
            events.append(self.event("steps", began + STEP * (here - 1), **fields))
            first, began, count = first + here, began + STEP * here, count - here
        return events
