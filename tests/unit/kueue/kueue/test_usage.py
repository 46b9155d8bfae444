"""Kueue's cases of admission fair sharing: who used less goes first."""

from __future__ import annotations

import pytest

from kueue.engine import Engine
from kueue.item import PENDING
from kueue.model import FINAL_SHARE, INITIAL_SHARE, AdmissionFairSharing, Config
from kueue.quantity import amount
from tests.unit.kueue.kueue import tables
from tests.unit.kueue.kueue.tables import NOW
from tests.unit.kueue.kueue.test_schedule import held, plain

TABLE = tables.table("usage")


def begin(case: tables.Data, *parts: tables.Data, config: Config) -> Engine:
    """Queues whose LocalQueues used something already, and workloads that wait."""
    engine = Engine(tables.setup(*parts, case, namespaces={}, config=config))
    for door, used in case.get("used", {}).items():
        assert engine.history is not None
        namespace, _, name = door.partition("/")
        engine.history._used[namespace, name] = {
            resource: float(amount(resource, str(value))) / (1000 if resource == "cpu" else 1)
            for resource, value in used.items()
        }
    for workload in case["workloads"]:
        engine.submit(tables.workload(workload), NOW)
    return engine


@pytest.mark.parametrize("case", TABLE["first"].values(), ids=TABLE["first"])
def test_who_used_least_is_first(case: tables.Data) -> None:
    config = Config(admission_fair_sharing=AdmissionFairSharing(0.0, weights=case["weights"]))
    first = begin(case, config=config).pending["cq"].pop()
    assert first is not None
    assert first.key == case["first"]


@pytest.mark.parametrize("case", TABLE["cases"].values(), ids=TABLE["cases"])
def test_cycles_admit_as_kueue(case: tables.Data) -> None:
    config = Config(
        strategies=(FINAL_SHARE, INITIAL_SHARE), admission_fair_sharing=AdmissionFairSharing(10.0, 1.0)
    )
    engine = begin(case, TABLE["common"], config=config)
    for _ in case["workloads"]:
        engine.cycle(NOW)
    assert held(engine) == {
        key: plain(tables.admission(admission)) for key, admission in case["after"]["holds"].items()
    }
    for key, (reason, message) in case["after"]["conditions"].items():
        assert engine.items[key].state == PENDING
        assert engine.condition(engine.items[key]) == (reason, message)
