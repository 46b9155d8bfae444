"""Sentences for people, beside the messages of Kueue's form."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kueue import reasons
from kueue.engine import Engine
from kueue.model import FlavorResource, LocalQueue, PreemptionPolicy, Workload
from kueue.places import Change
from kueue.plainly import said, waits, whose
from tests.unit.kueue.made import FLAVOR, GPU, decided, job, queue, running, setup

SHARED = setup(
    queue("all", 2),
    local_queues={(name, "default"): LocalQueue(name, "default", "all") for name in ("ann", "ben", "cem")},
)


def of(space: str, workload: Workload) -> Workload:
    """The same workload in another namespace."""
    return replace(workload, namespace=space, queue="default")


def sentence(engine: Engine, key: str) -> str:
    return waits(engine, engine.items[key], whose)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ([("ann", 2)], "1 more GPU is needed; ann holds both"),
        ([("ann", 1), ("ann", 1)], "1 more GPU is needed; ann holds both"),
        ([("ann", 1), ("ben", 1)], "1 more GPU is needed; ann holds 1, ben 1"),
    ],
)
def test_who_waits_is_told_what_is_missing_and_whose_it_is(held: list[tuple[str, int]], words: str) -> None:
    jobs = [of(who, running(f"old-{place}", "all", gpus)) for place, (who, gpus) in enumerate(held)]
    engine = decided(SHARED, *jobs, of("cem", job("new", "all", 1)))
    assert sentence(engine, "cem/new") == words


def test_a_part_that_somebody_holds_is_not_all_of_it() -> None:
    engine = decided(SHARED, of("ann", running("old", "all", 1)), of("cem", job("new", "all", 2)))
    assert sentence(engine, "cem/new") == "1 more GPU is needed; ann holds 1"


@pytest.mark.parametrize(("gpus", "words"), [(1, "it"), (2, "both"), (5, "all 5")])
def test_all_that_there_is_in_few_words(gpus: int, words: str) -> None:
    given = setup(queue("all", gpus), local_queues=SHARED.local_queues)
    engine = decided(given, of("ann", running("old", "all", gpus)), of("cem", job("new", "all", 1)))
    assert sentence(engine, "cem/new") == f"1 more GPU is needed; ann holds {words}"


def test_of_many_people_three_parts_are_named() -> None:
    names = ("ann", "ben", "cem", "dia", "eva")
    doors = {(name, "default"): LocalQueue(name, "default", "all") for name in names}
    given = setup(queue("all", 5), local_queues=doors)
    jobs = [of(name, running("old", "all", 2 if name == "eva" else 1)) for name in names[1:]]
    engine = decided(given, *jobs, of("ann", job("new", "all", 2)))
    assert sentence(engine, "ann/new") == "2 more GPUs are needed; eva holds 2, ben 1, cem 1, and 1 other"


def test_who_runs_does_not_wait_and_who_waits_for_ever_is_told_so() -> None:
    engine = decided(SHARED, of("ann", running("old", "all", 1)), of("cem", job("big", "all", 3)))
    assert sentence(engine, "ann/old") == ""
    assert sentence(engine, "cem/big") == "it asks for 3 GPUs, and its queue can have 2 at most"
    other = of("cem", job("other", "all", 1, resource="amd.com/gpu"))
    assert sentence(decided(SHARED, other), "cem/other") == "its queue gives out no GPUs"


def preempted(preemption: PreemptionPolicy, *queues: str) -> tuple[Engine, Change]:
    """A workload that another one of the last of these queues preempts."""
    given = setup(*(queue(name, 1, "both", preemption=preemption) for name in dict.fromkeys(queues)))
    engine = Engine(given, live=True)
    engine.submit(job("victim", queues[0], len(set(queues)), created=1.0), 10.0)
    engine.settle(10.0)
    engine.submit(job("urgent", queues[-1], 1, created=2.0, priority=5), 20.0)
    (change,) = (change for change in engine.settle(20.0) if change.event == "Preempted")
    return engine, change


def test_who_was_preempted_is_told_by_whom_and_why() -> None:
    engine, change = preempted(PreemptionPolicy(within="LowerPriority"), "a", "a")
    assert said(change.message) == "it gave way to urgent, which comes before it in the same queue"
    assert sentence(engine, "ns/urgent") == "1 more GPU is needed; room is being made for it"
    _, change = preempted(PreemptionPolicy(reclaim="Any"), "a", "b")
    assert said(change.message) == "it gave way to urgent, which takes back what its queue b had lent"


@pytest.mark.parametrize("cause", reasons.CAUSES)
def test_every_cause_of_a_preemption_has_words(cause: str) -> None:
    text = said(reasons.preempted("other", cause, "/lab/red", "/lab/blue"))
    assert text.startswith("it gave way to other, which ")
    assert reasons.CAUSES[cause] not in text


@pytest.mark.parametrize(
    "message",
    [
        reasons.NO_LONGER_FITS,
        reasons.OVERLAPPING,
        reasons.OVERLAPPING_BUT_FITS,
        reasons.PODS_NOT_READY,
        reasons.NAMESPACE_MISMATCH,
        "Exceeded the PodsReady timeout ns/one",
        "exceeding the maximum number of re-queuing retries",
        "LocalQueue main is stopped",
        "ClusterQueue all is inactive",
        "couldn't assign flavors to pod set main: untolerated taint {a b NoSchedule <nil>} in flavor h100",
        "couldn't assign flavors to pod set main: flavor h100 doesn't match node affinity",
    ],
)
def test_every_form_of_a_message_has_a_sentence(message: str) -> None:
    assert said(message)


@pytest.mark.parametrize("message", ["", "The workload is deactivated", "it broke", "Job finished"])
def test_what_is_a_sentence_already_needs_none(message: str) -> None:
    assert said(message) == ""


@pytest.mark.parametrize(
    ("short", "words"),
    [
        ([("cpu", 500)], "0.5 more CPUs are needed"),
        ([("cpu", 1000)], "1 more CPU is needed"),
        ([("memory", 3 * 1024**3)], "3Gi more memory is needed"),
        ([("cpu", 2000), (GPU, 1)], "1 more GPU and 2 more CPUs are needed"),
        ([(GPU, 3), (GPU, 2)], "2 more GPUs are needed"),
        ([("pods", 1)], "1 more pod is needed"),
        ([("example.com/licence", 4)], "4 more example.com/licence are needed"),
    ],
)
def test_amounts_are_those_of_people(short: list[tuple[str, int]], words: str) -> None:
    parts = [reasons.short_of(FlavorResource(FLAVOR, name), missing) for name, missing in short]
    assert said(f"couldn't assign flavors to pod set main: {', '.join(parts)}") == words
