"""One decision: a pure function."""

from __future__ import annotations

import copy

from lab.queue.decide import decide
from lab.queue.model import Preemption
from tests.unit.queue.made import job, queue, running, setup


def test_a_decision_depends_on_nothing_but_what_is_given() -> None:
    reclaim = Preemption(reclaim="Any")
    given = setup(queue("a", 4, "all", preemption=reclaim), queue("b", 4, "all"), queue("c", 1))
    workloads = [
        running("lent", "b", 8),
        job("owner", "a", 4),
        job("big", "c", 2),
        job("small", "c", 1, order=1),
    ]
    before = copy.deepcopy((given, workloads))
    first = decide(given, workloads, 7.0)
    assert first == decide(given, list(workloads), 7.0)
    assert (given, workloads) == before
    assert [each.workload for each in first.preemptions] == ["ns/lent"]
    assert first.admissions == ()
    assert {key: reason for key, (reason, _) in first.reasons.items()} == {
        "ns/owner": "WaitingForPreemptedWorkloads",
        "ns/big": "ExceedsMaxQuota",
        "ns/small": "",
    }
