"""Kueue's cases of one scheduling cycle: who holds what afterwards, who waits where and why."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kueue.engine import Engine
from kueue.item import PENDING, Item
from kueue.model import FINAL_SHARE, INITIAL_SHARE, Admission, Config
from tests.unit.kueue.kueue import tables
from tests.unit.kueue.kueue.tables import NOW

NAMESPACES = {
    "default": {},
    "eng-alpha": {"dep": "eng"},
    "eng-beta": {"dep": "eng"},
    "eng-gamma": {"dep": "eng"},
    "sales": {"dep": "sales"},
    "lend": {"dep": "lend"},
}
TABLES = {name: tables.table(name) for name in ("schedule", "schedule_fair", "schedule_recompute")}
CASES = [(name, case) for name, table in TABLES.items() for case in table["cases"]]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_cycle_decides_as_kueue(name: str, case: str) -> None:
    data = TABLES[name]["cases"][case]
    config = Config(strategies=(FINAL_SHARE, INITIAL_SHARE) if data.get("fair") else None)
    chosen = tables.setup(TABLES[name]["common"], data, namespaces=NAMESPACES, config=config)
    given = {workload["job"]: tables.workload(workload) for workload in data["workloads"]}
    engine = Engine(chosen)
    for workload in given.values():
        engine.submit(workload, NOW)
    changes = engine.cycle(NOW)
    after = data["after"]

    holds = {key: tables.admission(admission) for key, admission in after.get("holds", {}).items()}
    holds |= {key: given[key].admission for key in after.get("kept", ())}
    assert held(engine) == {key: plain(admission) for key, admission in holds.items()}
    preempted = {
        change.workload: [change.reason, change.message] for change in changes if change.event == "Preempted"
    }
    assert preempted == {
        key: [why, no_job(message)] for key, (why, message) in after.get("preempted", {}).items()
    }
    assert waiting(engine, parked=False) == in_order(after.get("heap", {}))
    assert waiting(engine, parked=True) == in_order(after.get("parked", {}))
    for key, (reason, message) in after.get("conditions", {}).items():
        if key in given and engine.items[key].state == PENDING:
            assert engine.condition(engine.items[key]) == (reason, message)


def no_job(message: str) -> str:
    """The message without the UID of a Kubernetes job, which workloads of the lab do not have."""
    return re.sub("JobUID: [^)]+", "JobUID: UNKNOWN", message)


def held(engine: Engine) -> dict[str, Any]:
    """Reservations after the cycle, of the victims too."""
    return {
        key: plain(item.admission) for held in engine.snapshot.held.values() for key, item in held.items()
    }


def plain(admission: Admission | None) -> Any:
    """Something to compare that is not about the order of resources."""
    assert admission is not None
    return admission.cluster_queue, [
        (pod_set.name, pod_set.count, dict(pod_set.flavors), dict(pod_set.usage))
        for pod_set in admission.pod_sets
    ]


def waiting(engine: Engine, *, parked: bool) -> dict[str, list[str]]:
    """ClusterQueue -> who waits there for his turn, or for an event."""

    def apart(item: Item) -> bool:
        return item.key in pending._alone or item.key in pending._later or item.shape in pending._parked

    by_queue = {}
    for name, pending in engine.pending.items():
        keys = sorted(item.key for item in pending if apart(item) == parked)
        if keys:
            by_queue[name] = keys
    return by_queue


def in_order(data: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: sorted(keys) for name, keys in data.items() if keys}
