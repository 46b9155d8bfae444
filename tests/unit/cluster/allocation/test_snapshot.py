"""What is read of Ray's dashboard, and what happens when its answers look different."""

from __future__ import annotations

from typing import Any

import pytest

from lab.cluster.allocation import read
from lab.errors import ClusterError
from tests.unit.cluster.allocation import rows
from tests.unit.cluster.allocation.rows import Dashboard


def test_the_number_of_requests_does_not_grow_with_the_jobs() -> None:
    jobs = tuple(rows.job(f"job-{i}", driver=f"{i:08x}") for i in range(50))
    api = Dashboard(jobs=jobs, actors=tuple(rows.supervisor(f"job-{i}", "ray-head") for i in range(50)))
    read(api)
    assert len(api.asked) == 5


def test_what_has_ended_is_not_asked_for() -> None:
    api = Dashboard()
    read(api)
    (actors,) = (path for path in api.asked if "/actors" in path)
    assert "filter_keys=state&filter_predicates=!=&filter_values=DEAD" in actors
    (tasks,) = (path for path in api.asked if "/tasks" in path)
    assert "filter_predicates==&filter_values=NORMAL_TASK" in tasks


def test_a_bundle_is_read_from_the_names_of_the_resources_in_it() -> None:
    (actor,) = read(Dashboard(actors=(rows.rank(1, "02000000", "ray-worker-0"),))).actors
    assert (actor.group, actor.bundle, dict(actor.resources)) == (rows.GROUP, 1, {})


def test_marks_of_nodes_are_no_resources() -> None:
    cleaner = rows.actor("Cleaner", "02000000", resources={"node:__internal_head__": 0.001})
    (actor,) = read(Dashboard(actors=(cleaner,))).actors
    assert dict(actor.resources) == {}


def test_dead_nodes_are_left_out() -> None:
    gone = {**rows.node("ray-worker-0", CPU=8.0), "state": "DEAD", "end_time_ms": 2000}
    assert [n.service for n in read(Dashboard(nodes=(rows.HEAD, gone))).nodes] == ["ray-head"]


def test_a_driver_that_was_not_submitted_has_the_name_of_its_ledger() -> None:
    snapshot = read(Dashboard(jobs=(rows.driver("04000000"), rows.job("a", driver="05000000"))))
    assert snapshot.owner("04000000") == "interactive-04000000"
    assert snapshot.owner("05000000") == "a"
    assert snapshot.owner("06000000") == "driver 06000000"


@pytest.mark.parametrize("kind", ["actors", "placement_groups", "tasks"])
@pytest.mark.parametrize("row", [{}, None, {"state": "ALIVE", "required_resources": 3}])
def test_an_unknown_shape_is_a_cluster_error_that_names_the_list(kind: str, row: Any) -> None:
    api = Dashboard()
    api.lists[kind] = (row,)
    with pytest.raises(ClusterError, match=f"list of {kind.replace('_', ' ')}"):
        read(api)


def test_rows_may_lack_what_older_versions_lack() -> None:
    bare = {"class_name": "Counter", "state": "ALIVE"}
    empty = {"placement_group_id": "p", "state": "PENDING"}
    api = Dashboard(actors=(bare,), groups=(empty,), tasks=({"state": "RUNNING"},))
    snapshot = read(api)
    assert (snapshot.actors[0].label, snapshot.groups[0].bundles) == ("Counter", ())
