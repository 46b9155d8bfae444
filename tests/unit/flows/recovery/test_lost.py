"""Which attempts a job lost although no fault is on record."""

from __future__ import annotations

import json

import pytest

from lab.evidence.ledger import Event, History
from lab.faults.records import FAULTS_PREFIX, LoggedFault
from lab.flows.recovery.lost import lost_without_fault, recorded_faults
from tests.fakes.store import FakeObjectStore
from tests.unit.data.stories import Story, event

LOST = "attempt 1 was lost after epoch 3 without a recorded fault"


def fault(at: float, reverted_at: float | None) -> LoggedFault:
    return LoggedFault("kill", "ray-worker-0", at, reverted_at)


@pytest.mark.parametrize(
    ("faults", "lost"),
    [
        ([], (LOST,)),
        ([fault(7.0, 12.0)], ()),
        ([fault(0.1, None)], ()),
        ([fault(-9.0, 0.2)], (LOST,)),
        ([fault(8.5, 12.0)], (LOST,)),
    ],
    ids=["none", "during it", "from before it on", "before it", "after it"],
)
def test_an_attempt_is_lost_without_a_fault_unless_one_lasted(
    faults: list[LoggedFault], lost: tuple[str, ...]
) -> None:
    assert lost_without_fault(History.of(Story().events()), faults) == lost


def test_an_attempt_that_an_elastic_run_ended_for_another_size_is_not_lost() -> None:
    resized = event("resized", 7.9, 1, ranks=1, to=2)
    events = Story(more=(resized,), without=("failure_detected",)).events()
    assert lost_without_fault(History.of(events), ()) == ()


def test_the_last_attempt_is_not_lost_whatever_became_of_it() -> None:
    events = Story(takes_over=False, error="OSError", more=(event("failure_detected", 29),)).events()
    assert lost_without_fault(History.of(events), ()) == ()


def test_of_several_runs_it_is_said_which() -> None:
    both: tuple[Event, ...] = (*Story(run="a").events(), *Story(run="b", takes_over=False).events())
    (reason,) = lost_without_fault(History.of(both), ())
    assert reason.startswith("attempt 1 of run a was lost")


def test_the_faults_on_record_are_those_of_the_job() -> None:
    store = FakeObjectStore()
    for job, at in (("j1", 9), ("j1", 3), ("j10", 5)):
        entry = {"kind": "kill", "target": "ray-worker-0", "at": at, "reverted_at": None}
        store.put(f"{FAULTS_PREFIX}/{job}/{at}000-ray-worker-0.json", json.dumps(entry).encode())
    store.put(f"{FAULTS_PREFIX}/j1/damaged.json", b"{")
    assert [fault.at for fault in recorded_faults(store, "j1")] == [3, 9]
