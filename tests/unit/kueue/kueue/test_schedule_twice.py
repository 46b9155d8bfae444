"""Kueue's cases of a second cycle, after some workloads are gone: the search for flavors goes on."""

from __future__ import annotations

import pytest

from kueue.engine import Engine
from kueue.item import PENDING
from kueue.model import Config
from tests.unit.kueue.kueue import tables
from tests.unit.kueue.kueue.tables import NOW
from tests.unit.kueue.kueue.test_schedule import held, plain

TABLE = tables.table("schedule_twice")


@pytest.mark.parametrize("case", TABLE["cases"].values(), ids=TABLE["cases"])
def test_the_next_cycle_decides_as_kueue(case: tables.Data) -> None:
    chosen = tables.setup(TABLE["common"], case, namespaces={}, config=Config())
    engine = Engine(chosen)
    for workload in case["workloads"]:
        engine.submit(tables.workload(workload), NOW)
    engine.cycle(NOW)
    for key, (reason, message) in case["conditions"].items():
        if engine.items[key].state == PENDING:
            assert engine.condition(engine.items[key]) == (reason, message)
    for key in case.get("gone", ()):
        engine.finish(key, NOW)
    engine.cycle(NOW)
    engine.cycle(NOW)
    assert held(engine) == {
        key: plain(tables.admission(admission)) for key, admission in case["after"].items()
    }
