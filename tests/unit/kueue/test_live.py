"""A live engine: quota is kept until a workload is gone, and all of its state can be written and read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kueue.engine import Engine
from kueue.item import ADMITTED, FINISHED, INACTIVE, PENDING
from kueue.live import begin
from kueue.model import AdmissionFairSharing, Config, PreemptionPolicy, Setup, WaitForPodsReady, Workload
from kueue.places import Change
from kueue.quantity import CPU
from kueue.status import workload_of
from kueue.writing import objects, workload_object
from tests.unit.kueue.made import decided, job, queue, reasons_of, setup
from tests.unit.kueue.test_properties import MANY, PLACE, setups, workloads

LOWER = PreemptionPolicy("LowerPriority")
ONE = setup(queue("a", 1, preemption=LOWER))

live = partial(decided, live=True)


def state(engine: Engine, name: str) -> str:
    return engine.items[f"ns/{name}"].state


def test_a_victim_keeps_its_quota_until_it_is_gone() -> None:
    engine = live(ONE, job("low", "a", 1, created=1.0))
    engine.submit(job("high", "a", 1, created=2.0, priority=5), 20.0)
    changes = engine.settle(20.0)
    assert reasons_of(changes, "Preempted") == {"low": "InClusterQueue"}
    assert (state(engine, "low"), state(engine, "high")) == (ADMITTED, PENDING)
    assert engine.leaving("ns/low")
    assert engine.settle(21.0) == []
    gone = engine.gone("ns/low", 25.0, "stopped")
    assert reasons_of(gone, "Requeued") == {"low": "Preempted"}
    assert reasons_of(engine.settle(25.0), "Admitted") == {"high": "Admitted"}
    assert state(engine, "low") == PENDING


def test_a_victim_that_ends_by_itself_has_finished() -> None:
    engine = live(ONE, job("low", "a", 1, created=1.0))
    engine.submit(job("high", "a", 1, created=2.0, priority=5), 20.0)
    engine.settle(20.0)
    engine.finish("ns/low", 21.0)
    assert not engine.leaving("ns/low")
    assert reasons_of(engine.settle(21.0), "Admitted") == {"high": "Admitted"}
    assert engine.gone("ns/low", 22.0) == []
    assert state(engine, "low") == FINISHED


@pytest.mark.parametrize("applied", [False, True])
def test_one_that_fits_after_the_preemptions_of_another_queue_is_not_overtaken(applied: bool) -> None:
    """Its deferred fit is sticky, also through a change of quotas."""
    reclaim = PreemptionPolicy(reclaim="Any")
    given = setup(
        queue("rest", 0, "all"),
        queue("a", 2, "all", preemption=reclaim),
        queue("b", 2, "all", preemption=reclaim),
    )
    engine = live(given, job("borrower", "rest", 4, created=1.0))
    engine.submit(job("first", "a", 2, created=2.0), 20.0)
    engine.submit(job("deferred", "b", 2, created=3.0), 20.0)
    engine.settle(20.0)
    assert "will fit after these preemptions" in engine.condition(engine.items["ns/deferred"])[1]
    if applied:
        engine.apply(given, 21.0)
    engine.submit(job("urgent", "b", 2, created=4.0, priority=5), 22.0)
    engine.settle(22.0)
    engine.gone("ns/borrower", 25.0)
    assert set(reasons_of(engine.settle(25.0), "Admitted")) == {"first", "deferred"}


def test_waiting_for_victims_makes_no_endless_cycles() -> None:
    engine = live(ONE, job("low", "a", 1, created=1.0))
    engine.submit(job("high", "a", 1, created=2.0, priority=5), 20.0)
    before = engine.cycles
    engine.settle(20.0)
    assert engine.cycles - before <= 3
    assert not engine.stirred
    assert not engine.restless


def test_one_that_is_lost_returns_to_its_old_place() -> None:
    engine = live(ONE, job("one", "a", 1, created=1.0), job("two", "a", 1, created=2.0))
    assert reasons_of(engine.gone("ns/one", 20.0), "Requeued") == {"one": "NodeFailures"}
    assert reasons_of(engine.settle(20.0), "Admitted") == {"one": "Admitted"}


def test_a_deactivated_one_gives_its_quota_back_when_it_is_gone() -> None:
    engine = live(ONE, job("one", "a", 1, created=1.0), job("two", "a", 1, created=2.0))
    assert reasons_of(engine.set_active("ns/one", False, 20.0), "Deactivated") == {"one": "Deactivated"}
    assert engine.set_active("ns/one", False, 20.0) == engine.drain(20.0) == engine.settle(20.0) == []
    engine.gone("ns/one", 22.0)
    assert state(engine, "one") == INACTIVE
    assert reasons_of(engine.settle(22.0), "Admitted") == {"two": "Admitted"}


def test_one_that_is_activated_on_its_way_out_waits_again() -> None:
    engine = live(ONE, job("one", "a", 1, created=1.0))
    engine.set_active("ns/one", False, 20.0)
    assert reasons_of(engine.set_active("ns/one", True, 21.0), "Requeued") == {"one": "Reactivated"}
    assert engine.leaving("ns/one")
    engine.gone("ns/one", 22.0)
    assert state(engine, "one") == PENDING


def test_a_deactivated_one_that_is_activated_is_pending() -> None:
    engine = live(ONE, job("one", "a", 1, created=1.0), job("two", "a", 1, created=2.0))
    engine.set_active("ns/two", False, 20.0)
    engine.set_active("ns/two", True, 21.0)
    assert state(engine, "two") == PENDING


def test_a_preempted_one_that_is_deactivated_does_not_return() -> None:
    engine = live(ONE, job("low", "a", 1, created=1.0))
    engine.submit(job("high", "a", 1, created=2.0, priority=5), 20.0)
    engine.settle(20.0)
    engine.set_active("ns/low", False, 21.0)
    engine.gone("ns/low", 22.0)
    assert state(engine, "low") == INACTIVE


def test_a_drained_queue_keeps_its_quota_until_all_are_gone() -> None:
    engine = live(ONE, job("one", "a", 1, created=1.0))
    stopped = setup(queue("a", 1, stop="HoldAndDrain"))
    changes = [*engine.apply(stopped, 20.0), *engine.drain(20.0)]
    assert reasons_of(changes, "Evicted") == {"one": "ClusterQueueStopped"}
    assert engine.tree.queues["a"].usage[PLACE] == 1
    assert engine.drain(21.0) == []
    engine.gone("ns/one", 22.0)
    assert engine.tree.queues["a"].usage[PLACE] == 0
    assert state(engine, "one") == PENDING


def test_one_that_never_gets_ready_backs_off_from_when_it_was_told_to_go() -> None:
    waits = WaitForPodsReady(timeout=10.0, backoff_base=60.0)
    engine = live(setup(queue("a", 1), config=Config(pods_ready=waits)), job("one", "a", 1, created=1.0))
    changes = engine.due(20.0)
    assert reasons_of(changes, "Evicted") == {"one": "PodsReadyTimeout"}
    engine.gone("ns/one", 25.0)
    assert engine.next_due() == 80.0
    assert engine.settle(70.0) == []
    engine.due(80.0)
    assert reasons_of(engine.settle(80.0), "Admitted") == {"one": "Admitted"}


def unready(recovery_timeout: float | None) -> Engine:
    """A workload since 10.0, with 10 s until its pods run; they did, and do not since 15.0."""
    waits = WaitForPodsReady(timeout=10.0, recovery_timeout=recovery_timeout)
    engine = live(setup(queue("a", 1), config=Config(pods_ready=waits)), job("one", "a", 1, created=1.0))
    engine.set_ready("ns/one", True, 12.0)
    engine.set_ready("ns/one", False, 15.0)
    return engine


@pytest.mark.parametrize(("recovery_timeout", "at"), [(None, 25.0), (2.0, 17.0)])
def test_pods_that_ran_once_have_a_time_of_their_own(recovery_timeout: float | None, at: float) -> None:
    engine = unready(recovery_timeout)
    assert engine.due(at - 0.1) == []
    assert reasons_of(engine.due(at), "Evicted") == {"one": "PodsReadyTimeout"}


def test_a_recovery_timeout_of_0_is_none_also_after_a_restart() -> None:
    engine = unready(0.0)
    document = json.loads(json.dumps([workload_object(workload_of(engine.items["ns/one"]))]))
    for one in (engine, begin([*objects(engine.setup), *document], 16.0)[0]):
        assert one.due(1e6) == []
        assert state(one, "one") == ADMITTED


@pytest.mark.parametrize("restarted", [False, True])
def test_one_that_names_no_queue_runs_no_longer_than_it_may(restarted: bool) -> None:
    engine = live(ONE, replace(job("one", "", 1, created=1.0), max_execution=30.0))
    if restarted:
        document = json.loads(json.dumps([workload_object(workload_of(engine.items["ns/one"]))]))
        engine, changes = begin([*objects(ONE), *document], 35.0)
        assert changes == [], "it was admitted before"
    assert engine.next_due() == 40.0
    assert reasons_of(engine.due(40.0), "Deactivated") == {"one": "MaximumExecutionTimeExceeded"}
    assert engine.leaving("ns/one")
    document = json.loads(json.dumps([workload_object(workload_of(engine.items["ns/one"]))]))
    engine, _ = begin([*objects(ONE), *document], 41.0)
    assert engine.leaving("ns/one"), "it runs still"
    engine.gone("ns/one", 42.0)
    assert state(engine, "one") == INACTIVE
    assert engine.items["ns/one"].executed == 32.0


def test_time_past_is_counted_in_whole_seconds_as_a_status_has_it() -> None:
    engine = live(ONE, job("one", "a", 1, created=1.0))
    engine.gone("ns/one", 12.9)
    assert engine.items["ns/one"].executed == 2.0


# What is written and read


STEPS = st.lists(
    st.tuples(st.sampled_from(["finish", "gone", "set_active", "set_ready"]), st.integers(0, 11))
)


def go(engine: Engine, keys: list[str], steps: list[tuple[str, int]]) -> Iterator[list[Change]]:
    """Let the engine go these steps, as far as they are possible; yields what each call changed."""
    yield engine.settle(10.0)
    for moment, (name, place) in enumerate(steps):
        now, key = 11.5 + moment, keys[place % len(keys)]
        if name == "gone":
            yield engine.gone(key, now)
        elif name == "set_active":
            yield engine.set_active(key, moment % 2 == 1, now)
        elif name == "set_ready":
            engine.set_ready(key, moment % 3 > 0, now)
        elif engine.items[key].state != FINISHED:
            yield engine.finish(key, now, message="done")
        yield engine.due(now)
        yield engine.settle(now)


WAITING = WaitForPodsReady(timeout=3.0, recovery_timeout=2.0, backoff_base=2.0, backoff_limit=2)


Steps = list[tuple[str, int]]


@MANY
@given(setups(), workloads(), STEPS, st.booleans())
def test_what_holds_whatever_is_called(
    chosen: Setup, jobs: list[Workload], steps: Steps, waits: bool
) -> None:
    """To draw a case takes longer than to ask all of it."""
    a_status_that_is_written_and_read_is_the_same(chosen, jobs, steps, waits)
    the_same_calls_give_the_same_changes_again(chosen, jobs, steps)
    live_no_quota_is_exceeded_whoever_leaves_late(chosen, jobs, steps)


def a_status_that_is_written_and_read_is_the_same(
    chosen: Setup, jobs: list[Workload], steps: Steps, waits: bool
) -> None:
    if waits:
        chosen = replace(chosen, config=replace(chosen.config, pods_ready=WAITING))
    jobs = [replace(job, duration=None) for job in jobs]
    engine = live(chosen, *jobs)
    list(go(engine, [workload.key for workload in jobs], steps))
    before = {key: workload_of(item) for key, item in engine.items.items()}
    documents = [workload_object(workload) for workload in before.values()]
    text = json.loads(json.dumps(documents))
    restored, _ = begin([*objects(chosen), *text], 99.0)
    assert {key: item.workload for key, item in restored.items.items()} == before
    for key, item in engine.items.items():
        again = restored.items[key]
        assert (again.state, again.usage, again.evicted) == (item.state, item.usage, item.evicted)
        assert restored.leaving(key) == engine.leaving(key)
        if item.state != PENDING:  # what waits may have another reason in another setting
            assert workload_of(again) == before[key]
    for name, node in engine.tree.queues.items():
        assert restored.tree.queues[name].usage.get(PLACE, 0) == node.usage.get(PLACE, 0)


def the_same_calls_give_the_same_changes_again(chosen: Setup, jobs: list[Workload], steps: Steps) -> None:
    documents = [*objects(chosen), *(workload_object(replace(job, duration=None)) for job in jobs)]
    keys = [job.key for job in jobs]

    def changes(texts: list[Any]) -> list[Change]:
        engine, begun = begin(texts, 10.0)
        return [*begun, *(change for changes in go(engine, keys, steps) for change in changes)]

    assert changes(json.loads(json.dumps(documents))) == changes(documents)


def live_no_quota_is_exceeded_whoever_leaves_late(chosen: Setup, jobs: list[Workload], steps: Steps) -> None:
    engine = live(chosen, *jobs)
    for _ in go(engine, [workload.key for workload in jobs], steps):
        for node in (*engine.tree.cohorts.values(), *engine.tree.queues.values()):
            assert node.usage.get(PLACE, 0) <= node.potential(PLACE)
            assert node.left(PLACE) >= 0


def test_usage_over_time_goes_on_after_a_restart() -> None:
    fair = Config(admission_fair_sharing=AdmissionFairSharing(half_life=100.0))
    chosen = setup(queue("a", 4, usage_based=True), config=fair)
    engine = live(chosen, job("one", "a", 2, created=1.0))
    engine.sample(10.0)
    engine.sample(60.0)
    engine.submit(job("two", "a", 1, created=70.0), 70.0)
    engine.settle(70.0)
    assert engine.history is not None
    given = json.loads(json.dumps(engine.history.status()))
    restored, _ = begin([*objects(chosen)], 60.0, given)
    assert restored.history is not None
    assert restored.history.of(("ns", "a")) == engine.history.of(("ns", "a")) > 0
    assert restored.history.next_sample(60.0) == engine.history.next_sample(60.0)
    for history in (engine.history, restored.history):
        history.sample(360.0, [])
    assert restored.history.of(("ns", "a")) == engine.history.of(("ns", "a"))


def test_amounts_of_cpu_and_memory_are_kept_to_the_last_unit() -> None:
    requests = {CPU: 1234, "memory": 5 * 1024**3 + 1}
    one = job("one", "a", 1, created=1.123457)
    one = replace(one, pod_sets=(replace(one.pod_sets[0], requests=requests),), max_execution=90.0)
    document = json.loads(json.dumps(workload_object(one)))
    restored, _ = begin([*objects(ONE), document], 2.0)
    assert restored.items["ns/one"].workload == replace(one, priority=0)
