"""Who holds what where: entrypoints, ranks, trials, actors, tasks."""

from __future__ import annotations

from lab.cluster.allocation import Holding, read
from lab.cluster.allocation.usage_by_job import free, holdings
from tests.unit.cluster.allocation import rows
from tests.unit.cluster.allocation.rows import Dashboard

HALF = {"CPU": 4.0, "GPU": 0.5}


def held(api: Dashboard) -> list[tuple[str, str, str, dict[str, float]]]:
    """Everything that is held: service, job, part, resources."""
    return [(h.service, h.job, h.what, dict(h.resources)) for h in holdings(read(api))]


def test_an_entrypoint_belongs_to_the_job_in_its_actors_name() -> None:
    api = Dashboard(
        jobs=(rows.job("plain"),), actors=(rows.supervisor("plain", "ray-worker-0", GPU=1.0, CPU=8.0),)
    )
    assert held(api) == [("ray-worker-0", "plain", "entrypoint", {"GPU": 1.0, "CPU": 8.0})]


def test_an_entrypoint_that_asks_for_nothing_holds_nothing() -> None:
    assert held(Dashboard(jobs=(rows.job("a"),), actors=(rows.supervisor("a", "ray-head"),))) == []


def test_ranks_hold_their_bundles_and_are_numbered_node_by_node() -> None:
    bundles = (("ray-worker-1", HALF), ("ray-worker-0", HALF), ("ray-worker-1", HALF))
    ranks = ((2, "ray-worker-1"), (0, "ray-worker-1"), (1, "ray-worker-0"))
    api = Dashboard(
        jobs=(rows.job("train", driver="02000000"),),
        actors=tuple(rows.rank(bundle, "02000000", where) for bundle, where in ranks),
        groups=(rows.group("02000000", *bundles),),
    )
    assert held(api) == [
        ("ray-worker-0", "train", "rank 2", HALF),
        ("ray-worker-1", "train", "rank 0", HALF),
        ("ray-worker-1", "train", "rank 1", HALF),
    ]


def test_a_trial_is_called_after_its_function() -> None:
    trial = rows.actor(
        "ImplicitFunc", "06000000", "ray-worker-0", repr_name="objective",
        resources={f"GPU_group_{rows.GROUP}": 0.5, f"GPU_group_0_{rows.GROUP}": 0.5},
    )  # fmt: skip
    api = Dashboard(
        jobs=(rows.job("tune", driver="06000000"),),
        actors=(trial,),
        groups=(rows.group("06000000", ("ray-worker-0", {"CPU": 1.0, "GPU": 0.5})),),
    )
    assert held(api) == [("ray-worker-0", "tune", "trial objective", {"CPU": 1.0, "GPU": 0.5})]


def test_a_bundle_without_an_actor_is_reserved() -> None:
    api = Dashboard(
        jobs=(rows.job("train", driver="02000000"),),
        groups=(rows.group("02000000", ("ray-worker-0", {"GPU": 1.0})),),
    )
    assert held(api) == [("ray-worker-0", "train", "reserved", {"GPU": 1.0})]


def test_calls_of_one_function_on_a_node_are_one_holding() -> None:
    api = Dashboard(
        jobs=(rows.driver("07000000"),),
        tasks=(
            rows.task("double", "07000000", "ray-worker-0", CPU=1.0),
            rows.task("double", "07000000", "ray-worker-0", CPU=1.0),
            rows.task("double", "07000000", "ray-worker-1", CPU=1.0),
        ),
    )
    assert held(api) == [
        ("ray-worker-0", "interactive-07000000", "task double", {"CPU": 2.0}),
        ("ray-worker-1", "interactive-07000000", "task double", {"CPU": 1.0}),
    ]


def test_a_task_that_waits_for_another_lends_its_cpus_but_not_its_gpu() -> None:
    waits = rows.task("outer", "07000000", "ray-worker-0", "RUNNING_IN_RAY_GET", CPU=1.0, GPU=0.5)
    assert held(Dashboard(jobs=(rows.driver("07000000"),), tasks=(waits,))) == [
        ("ray-worker-0", "interactive-07000000", "task outer", {"GPU": 0.5})
    ]


def test_what_was_on_a_dead_node_is_held_no_more() -> None:
    gone = {**rows.node("ray-worker-0", CPU=8.0, GPU=1.0), "state": "DEAD"}
    api = Dashboard(
        nodes=(rows.HEAD, gone),
        jobs=(rows.job("a"),),
        actors=(rows.supervisor("a", "ray-worker-0", GPU=1.0),),
    )
    assert held(api) == []


def test_free_is_what_is_left_without_rounding_errors() -> None:
    nodes = read(Dashboard()).nodes
    thirds = tuple(Holding("a", "ray-worker-0", {"GPU": 0.1}, "rank 0") for _ in range(3))
    left = free(nodes, thirds)
    assert left["ray-worker-0"]["GPU"] == 0.7
    assert left["ray-worker-1"]["GPU"] == 1.0
