"""One decision: a pure function."""

from __future__ import annotations

import copy

from kueue.item import PENDING
from kueue.model import PreemptionPolicy, Setup, Workload
from kueue.places import Change
from tests.unit.kueue.made import job, queue, running, setup, submitted


def decide(given: Setup, workloads: list[Workload]) -> tuple[list[Change], dict[str, str]]:
    """What one cycle changes, and the reason of each workload that waits then."""
    engine = submitted(given, *workloads, now=7.0)
    changes = engine.cycle(7.0)
    waiting = {key: engine.condition(item)[0] for key, item in engine.items.items() if item.state == PENDING}
    return changes, waiting


def test_a_decision_depends_on_nothing_but_what_is_given() -> None:
    reclaim = PreemptionPolicy(reclaim="Any")
    given = setup(queue("a", 4, "all", preemption=reclaim), queue("b", 4, "all"), queue("c", 1))
    workloads = [
        running("lent", "b", 8),
        job("owner", "a", 4),
        job("big", "c", 2),
        job("small", "c", 1, order=1),
    ]
    before = copy.deepcopy((given, workloads))
    changes, waiting = decide(given, workloads)
    assert (changes, waiting) == decide(given, list(workloads))
    assert (given, workloads) == before
    assert [change.workload for change in changes if change.event == "Preempted"] == ["ns/lent"]
    assert [change for change in changes if change.event == "Admitted"] == []
    assert waiting == {
        "ns/owner": "WaitingForPreemptedWorkloads",
        "ns/big": "ExceedsMaxQuota",
        "ns/small": "",
    }
