"""Kueue's cases of workloads that wait: where a try leaves them, what parks them, what brings them back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kueue.cycle import Cycle, Entry
from kueue.engine import Engine
from kueue.flavors import Assignment
from kueue.item import FINISHED, Item, Tried
from kueue.model import Config, FlavorResource, Setup, WaitForPodsReady
from kueue.reasons import IN_CLUSTER_QUEUE, SUSPENDED
from kueue.snapshot import Victim
from tests.unit.kueue.kueue import tables
from tests.unit.kueue.kueue.tables import NOW

TABLE = tables.table("waiting")
ONE_CPU = [{"default": {"cpu": ["1"]}}]


def cases(name: str) -> pytest.MarkDecorator:
    """Marks a test that runs for each case of a part of the table."""
    return pytest.mark.parametrize("case", TABLE[name].values(), ids=TABLE[name])


def made(queue: tables.Data, flavors: list[str], config: Config | None = None) -> Setup:
    """A ClusterQueue with one LocalQueue."""
    name = queue.get("name", "cq")
    parts = {
        "queues": [{**queue, "name": name}],
        "doors": [{"name": "lq", "namespace": "ns", "queue": name}],
        "flavors": [{"name": name} for name in flavors],
    }
    return tables.setup(parts, namespaces={}, config=config or Config())


def submit(engine: Engine, name: str, given: tables.Data, now: float = NOW) -> Item:
    """Send in a workload; `cpu` is what it asks for, and `shape` makes it unlike others."""
    asks = {"cpu": given.get("cpu", str(given.get("shape", 1)))}
    data = {"job": f"ns/{name}", "door": "lq", "pods": [{"asks": asks}], "created": 0, **given}
    engine.submit(tables.workload(data), now)
    return engine.items[f"ns/{name}"]


@cases("tries")
def test_a_try_leaves_a_workload_where_kueue_does(case: tables.Data) -> None:
    engine = Engine(made({"groups": ONE_CPU, "selector": (), **case.get("queue", {})}, ["default"]))
    if "held" in case:
        holds = {"queue": "cq", "pods": [{"holds": {"cpu": ["default", "1"]}}]}
        submit(engine, "held", {"holds": holds, "created": -1, **case["held"]})
    head = submit(engine, "head", case.get("head", {}))
    twin = submit(engine, "twin", {**case.get("head", {}), "created": 1})
    pending = engine.pending["cq"]
    if "entry" in case:
        conclude(engine, head, case)
    else:
        engine.cycle(NOW)
    assert head in list(pending)
    assert pending.apart(head) == case["parked"]
    assert (pending.sticky is head) == case.get("sticky", False)
    if "condition" in case:
        assert engine.condition(head) == tuple(case["condition"])
    if "twin" in case:
        assert pending.apart(twin) == case["twin"]


def conclude(engine: Engine, head: Item, case: tables.Data) -> None:
    """Let a cycle end so for the head. What is the same the next time is no news."""
    assert engine.pending["cq"].pop() is head
    if "tried" in case:
        head.tried = Tried(tuple(case["tried"]), 0, 0)
    entry = Entry(head, **case["entry"])
    news = [change.event for change in engine._conclude(entry, NOW)]
    assert news == (["Pending"] if entry.reason else [])
    assert engine._conclude(entry, NOW) == []


@cases("steps")
def test_a_queue_goes_kueues_steps(case: tables.Data) -> None:
    strategy = {"groups": ONE_CPU, "strategy": case.get("strategy", "BestEffortFIFO")}
    engine = Engine(made(strategy, ["default"]))
    for step in case["steps"]:
        take(engine, *step)
    pending = engine.pending["cq"]
    waiting = list(pending)
    assert sorted(item.workload.name for item in waiting if pending.apart(item)) == case.get("apart", [])
    assert [item.workload.name for item in waiting if not pending.apart(item)] == case.get("next", [])
    for name, reason in case.get("reasons", {}).items():
        assert engine.condition(engine.items[f"ns/{name}"])[0] == reason


def take(engine: Engine, action: str, name: str | None = None, more: Any = None) -> None:
    """Do one step of a case."""
    pending = engine.pending["cq"]
    item = engine.items.get(f"ns/{name}")
    if action == "submit":
        submit(engine, str(name), more or {})
    elif action == "pop":
        popped = pending.pop()
        assert (None if popped is None else popped.workload.name) == name
    elif action == "flush":
        engine._stir(("cq",))
    else:
        assert item is not None
        pending.remove(item)
        if action == "wait":
            pending.park_alone(item)
        elif action == "park":
            pending.park(item, more, "")


@cases("requeued")
def test_a_workload_returns_to_its_queue_when_it_does_in_kueue(case: tables.Data) -> None:
    waits = WaitForPodsReady(**case["pods_ready"]) if "pods_ready" in case else None
    name = case["workload"].get("holds", {"queue": "cq"})["queue"]
    setup = made({"name": name, "groups": []}, [], Config(pods_ready=waits))
    event = case.get("event", "")
    engine = Engine(stopped(setup, event))
    item = submit(engine, "wl", {"pods": [], **case["workload"]}, NOW - 1)
    if "limit" in case:
        assert engine.next_due() == NOW + case["limit"]
    if event == "activated":
        changes = engine.set_active("ns/wl", True, NOW)
    elif event:
        changes = engine.apply(setup, NOW)
    else:
        changes = engine.due(NOW)
    assert [[change.event, change.reason, change.message] for change in changes] == case["changes"]
    if "requeues" in case:
        assert item.requeues == case["requeues"]
    if "due" in case:
        assert engine.next_due() == NOW + case["due"]
    else:
        assert item.state == FINISHED or item in list(engine.pending[name])


def stopped(setup: Setup, event: str) -> Setup:
    """The setup before its queue, or the LocalQueue, goes on."""
    queues, doors = setup.cluster_queues, setup.local_queues
    if event == "queue goes on":
        queues = {key: replace(queue, stop="Hold") for key, queue in queues.items()}
    if event == "door goes on":
        doors = {key: replace(local_queue, stop="Hold") for key, local_queue in doors.items()}
    return replace(setup, cluster_queues=queues, local_queues=doors)


@cases("memory")
def test_a_search_for_flavors_goes_on_unless_it_is_old_and_quota_came_back(case: tables.Data) -> None:
    groups = [{"first": {"cpu": ["1"]}, "second": {"cpu": ["1"]}}]
    engine = Engine(made({"groups": groups}, ["first", "second"]))
    head = submit(engine, "head", {})
    head.tried = Tried(({"cpu": 0},), 0, case["cycle"])
    (entry,) = Cycle(engine.snapshot, {"cq": case["released"]}, 5).run([head])
    assert entry.admission is not None
    assert entry.admission.flavors() == {"main": {"cpu": case["flavor"]}}


@cases("active")
def test_a_queue_admits_once_its_flavors_are_there(case: tables.Data) -> None:
    queue = {"groups": [{"x86": {"cpu": ["5"]}}]}
    engine = Engine(made(queue, case["before"]))
    assert ("cq" in engine.inactive) == case["active"]
    engine.apply(made(queue, case["after"]), NOW)
    assert ("cq" not in engine.inactive) == case["active"]
    head = submit(engine, "head", {})
    engine.settle(NOW)
    assert (head.admission is not None) == case["active"]
    assert engine.condition(head)[0] == ("" if case["active"] else SUSPENDED)


def test_a_victim_of_two_is_taken_out_once() -> None:
    """Line 9379 of scheduler_test: of 10 CPUs 6 and 2 are held; 9 do not fit when the 6 are gone."""
    engine = Engine(made({"groups": [{"default": {"cpu": ["10"]}}]}, ["default"]))
    for name, cpu in (("victim", "6"), ("other", "2")):
        submit(engine, name, {"holds": {"queue": "cq", "pods": [{"holds": {"cpu": ["default", cpu]}}]}})
    victim, head = engine.items["ns/victim"], submit(engine, "head", {"cpu": "9"})
    head.cluster_queue = "cq"
    cycle = Cycle(engine.snapshot, {}, 1)
    cycle._preempted = {victim.key: victim}
    usage = {FlavorResource("default", "cpu"): 9000}
    entry = Entry(head, Assignment(usage=usage), [Victim(victim, IN_CLUSTER_QUEUE)])
    assert not cycle._fits(engine.snapshot.node(head), entry)
