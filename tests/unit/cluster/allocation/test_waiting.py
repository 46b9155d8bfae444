"""Which jobs wait: for ever, for others, or only for Ray."""

from __future__ import annotations

import pytest

from lab.cluster.allocation import Waiting, read, waiting
from tests.unit.cluster.allocation import rows
from tests.unit.cluster.allocation.rows import Dashboard

TRAIN = rows.actor("TrainController", "02000000", "ray-head")


def why(api: Dashboard) -> dict[str, Waiting]:
    """Who waits, and why."""
    return waiting(read(api))


def test_an_entrypoint_that_no_node_can_hold_is_infeasible() -> None:
    api = Dashboard(jobs=(rows.job("big", "PENDING"),), actors=(rows.supervisor("big", GPU=2.0, CPU=8.0),))
    waiting = why(api)["big"]
    assert (waiting.kind, waiting.what, waiting.count) == ("infeasible", "entrypoint", 1)
    assert waiting.reason == "no node has 2 GPU; the largest has 1"
    assert (dict(waiting.demand), waiting.short, waiting.holders) == ({"GPU": 2.0, "CPU": 8.0}, ("GPU",), ())


def test_a_demand_that_fits_nowhere_together_says_what_the_nodes_offer() -> None:
    nodes = (rows.HEAD, rows.node("ray-worker-0", CPU=8.0), rows.node("ray-worker-1", CPU=2.0, GPU=1.0))
    api = Dashboard(
        nodes=nodes, jobs=(rows.job("a", "PENDING"),), actors=(rows.supervisor("a", CPU=8.0, GPU=1.0),)
    )
    assert why(api)["a"].reason == (
        "no single node has 8 CPU and 1 GPU; they offer 8 CPU, or 2 CPU and 1 GPU"
    )


def test_an_infeasible_job_becomes_feasible_when_such_a_node_joins() -> None:
    big = (*rows.TWO, rows.node("ray-worker-2", CPU=16.0, GPU=2.0))
    api = Dashboard(
        nodes=big, jobs=(rows.job("big", "PENDING"),), actors=(rows.supervisor("big", GPU=2.0, CPU=8.0),)
    )
    assert why(api)["big"].kind == "starting"


def test_a_job_that_waits_for_others_names_who_holds_what_where() -> None:
    api = Dashboard(
        jobs=(rows.job("a"), rows.job("b", order=1), rows.job("c", "PENDING", order=2)),
        actors=(
            rows.supervisor("a", "ray-worker-0", GPU=1.0),
            rows.supervisor("b", "ray-worker-1", GPU=0.5, CPU=2.0),
            rows.supervisor("c", GPU=1.0),
        ),
    )
    waiting = why(api)["c"]
    assert waiting.kind == "others"
    assert waiting.reason == "needs 1 GPU; free: ray-worker-0 0 GPU, ray-worker-1 0.5 GPU"
    assert [(h.job, h.service) for h in waiting.holders] == [("a", "ray-worker-0"), ("b", "ray-worker-1")]
    assert waiting.held_by == "a (entrypoint: 1 GPU on ray-worker-0), b (entrypoint: 0.5 GPU on ray-worker-1)"
    assert waiting.text == f"{waiting.reason}; held by {waiting.held_by}"
    assert set(why(api)) == {"c"}


def test_who_holds_only_what_is_not_short_is_not_named() -> None:
    api = Dashboard(
        jobs=(rows.job("cpus"), rows.job("gpus"), rows.job("c", "PENDING")),
        actors=(
            rows.supervisor("cpus", "ray-worker-0", CPU=4.0),
            rows.supervisor("gpus", "ray-worker-0", GPU=1.0),
            rows.supervisor("gpus", "ray-worker-1", GPU=1.0),
            rows.supervisor("c", GPU=1.0),
        ),
    )
    assert {h.job for h in why(api)["c"].holders} == {"gpus"}


def test_many_holders_are_counted() -> None:
    jobs = tuple(rows.job(f"h{i}") for i in range(8))
    small = tuple(rows.supervisor(f"h{i}", f"ray-worker-{i % 2}", GPU=0.25) for i in range(8))
    api = Dashboard(
        jobs=(*jobs, rows.job("c", "PENDING", order=9)), actors=(*small, rows.supervisor("c", GPU=1.0))
    )
    assert len(why(api)["c"].holders) == 8
    assert why(api)["c"].held_by.endswith(", 4 more")


def test_a_running_job_whose_ranks_have_no_place_waits_too() -> None:
    api = Dashboard(
        jobs=(rows.job("train", driver="02000000", order=1), rows.job("other")),
        actors=(
            TRAIN,
            rows.supervisor("train", "ray-head"),
            rows.supervisor("other", "ray-worker-1", GPU=0.5),
        ),
        groups=(rows.pending_group("02000000", 2, GPU=1.0, CPU=8.0),),
    )
    waiting = why(api)["train"]
    assert (waiting.kind, waiting.what, waiting.count) == ("others", "ranks", 2)
    assert waiting.reason == (
        "needs 2 x 8 CPU and 1 GPU, of which 1 fit now; free: ray-worker-0 1 GPU, ray-worker-1 0.5 GPU"
    )
    assert [h.job for h in waiting.holders] == ["other"]


@pytest.mark.parametrize(
    ("count", "per_rank", "reason"),
    [
        (1, {"GPU": 2.0}, "no node has 2 GPU; the largest has 1"),
        (2, {"GPU": 1.0, "CPU": 16.0}, "no node has 16 CPU; the largest has 8 (for each of 2 ranks)"),
        (3, {"GPU": 1.0}, "only 2 of 3 ranks fit on the nodes; each asks for 1 GPU"),
    ],
)
def test_ranks_that_the_nodes_could_never_hold_are_infeasible(
    count: int, per_rank: dict[str, float], reason: str
) -> None:
    api = Dashboard(
        jobs=(rows.job("train", driver="02000000"),),
        actors=(TRAIN,),
        groups=(rows.group("02000000", *[("", per_rank)] * count, state="PENDING"),),
    )
    assert (why(api)["train"].kind, why(api)["train"].reason) == ("infeasible", reason)


def test_bundles_without_a_gpu_leave_the_nodes_with_gpus_to_those_that_ask_for_one() -> None:
    nodes = (rows.HEAD, rows.node("ray-worker-0", CPU=8.0, GPU=1.0), rows.node("ray-worker-1", CPU=8.0))
    bundles = [("", {"CPU": 8.0}), ("", {"CPU": 1.0, "GPU": 1.0})]
    api = Dashboard(
        nodes=nodes,
        jobs=(rows.job("a", "PENDING", driver="02000000"),),
        groups=(rows.group("02000000", *bundles, state="PENDING"),),
    )
    assert why(api)["a"].kind == "starting"


@pytest.mark.parametrize(("scheduling", "kind"), [("NO_RESOURCES", "others"), ("INFEASIBLE", "infeasible")])
def test_an_arrangement_that_is_not_found_is_infeasible_only_if_ray_says_so(
    scheduling: str, kind: str
) -> None:
    nodes = (rows.HEAD, *(rows.node(f"ray-worker-{i}", CPU=10.0) for i in range(2)))
    bundles = [("", {"CPU": cpus}) for cpus in (5.0, 4.0, 4.0, 3.0, 2.0, 2.0)]  # 5 + 3 + 2, 4 + 4 + 2
    api = Dashboard(
        nodes=nodes,
        jobs=(rows.job("a", driver="02000000"), rows.job("x")),
        actors=(rows.supervisor("x", "ray-worker-0", CPU=3.0),),
        groups=(rows.group("02000000", *bundles, state="PENDING", scheduling=scheduling),),
    )
    assert why(api)["a"].kind == kind


def test_bundles_that_ask_for_more_than_all_nodes_have_are_infeasible() -> None:
    api = Dashboard(
        jobs=(rows.job("a", driver="02000000"),),
        groups=(rows.group("02000000", *[("", {"CPU": c}) for c in (8.0, 7.0, 2.0)], state="PENDING"),),
    )
    waiting = why(api)["a"]
    assert (waiting.kind, waiting.reason) == (
        "infeasible",
        "only 2 of 3 bundles of the placement group fit on the nodes; each asks for 8 CPU",
    )


def test_alike_ranks_that_no_arrangement_holds_are_infeasible_though_the_sums_would_do() -> None:
    api = Dashboard(
        jobs=(rows.job("train", driver="02000000"),),
        actors=(TRAIN,),
        groups=(rows.pending_group("02000000", 3, GPU=0.6),),
    )
    waiting = why(api)["train"]
    assert (waiting.kind, waiting.reason[:16]) == ("infeasible", "only 2 of 3 rank")


def test_what_only_ray_knows_to_be_infeasible_is_believed() -> None:
    api = Dashboard(
        jobs=(rows.job("a", driver="02000000"),),
        groups=(rows.pending_group("02000000", 2, "INFEASIBLE", GPU=0.5),),
    )
    waiting = why(api)["a"]
    assert (waiting.kind, waiting.what) == ("infeasible", "placement group")


def test_an_entrypoint_that_holds_the_gpu_of_its_own_ranks_is_found() -> None:
    nodes = (rows.HEAD, rows.node("ray-worker-0", CPU=8.0, GPU=1.0))
    api = Dashboard(
        nodes=nodes,
        jobs=(rows.job("train", driver="02000000"),),
        actors=(TRAIN, rows.supervisor("train", "ray-worker-0", GPU=1.0)),
        groups=(rows.pending_group("02000000", 1, GPU=1.0),),
    )
    waiting = why(api)["train"]
    assert waiting.kind == "others"
    assert waiting.held_by == "train (entrypoint: 1 GPU on ray-worker-0)"


def test_a_job_that_queues_for_more_of_what_it_has_does_not_wait() -> None:
    trial = ("ray-worker-0", {"GPU": 1.0})
    api = Dashboard(
        jobs=(rows.job("tune", driver="06000000"), rows.job("b")),
        actors=(rows.supervisor("b", "ray-worker-1", GPU=1.0),),
        groups=(
            rows.group("06000000", trial, group_id=rows.OTHER_GROUP),
            rows.pending_group("06000000", 1, GPU=1.0),
        ),
    )
    assert why(api) == {}


def test_a_run_that_lost_a_node_for_good_is_infeasible() -> None:
    nodes = (rows.HEAD, rows.node("ray-worker-1", CPU=8.0, GPU=1.0))
    api = Dashboard(
        nodes=nodes,
        jobs=(rows.job("train", driver="02000000"),),
        actors=(TRAIN,),
        groups=(rows.pending_group("02000000", 2, GPU=1.0),),
    )
    assert why(api)["train"].reason == "only 1 of 2 ranks fit on the nodes; each asks for 1 GPU"


def test_only_the_bundles_without_a_place_wait() -> None:
    cpus, gpu = {"CPU": 6.0}, {"GPU": 1.0}
    lost = rows.group("02000000", ("", cpus), ("ray-worker-1", gpu), state="RESCHEDULING")
    others = (rows.supervisor("x", "ray-worker-0", CPU=6.0), rows.supervisor("x", "ray-worker-1", CPU=4.0))
    api = Dashboard(
        jobs=(rows.job("train", driver="02000000"), rows.job("x")), groups=(lost,), actors=(TRAIN, *others)
    )
    waiting = why(api)["train"]
    assert (waiting.kind, waiting.count, dict(waiting.demand)) == ("others", 1, cpus)


def test_tasks_that_no_node_can_run_are_infeasible_and_counted() -> None:
    wants = tuple(rows.task("big", "07000000", GPU=2.0, CPU=1.0) for _ in range(3))
    waiting = why(Dashboard(jobs=(rows.driver("07000000"),), tasks=wants))["interactive-07000000"]
    assert (waiting.kind, waiting.what, waiting.count) == ("infeasible", "task big", 3)


def full(*actors: rows.Row) -> Dashboard:
    """A lab whose CPUs `x` holds, and these actors of the job `a`."""
    holds = tuple(rows.supervisor("x", f"ray-worker-{i}", CPU=8.0) for i in range(2))
    return Dashboard(jobs=(rows.job("a", driver="07000000"), rows.job("x")), actors=(*holds, *actors))


def test_an_actor_that_names_no_resources_waits_for_the_cpu_that_ray_places_it_with() -> None:
    waiting = why(full(rows.actor("Counter", "07000000", state="PENDING_CREATION")))["a"]
    assert (waiting.kind, waiting.what, dict(waiting.demand)) == ("others", "actor Counter", {"CPU": 1.0})
    assert waiting.reason == "needs 1 CPU; free: ray-worker-0 0 CPU, ray-worker-1 0 CPU"
    assert {h.job for h in waiting.holders} == {"x"}


@pytest.mark.parametrize(
    "actor",
    [
        rows.actor("Counter", "07000000", "ray-worker-0"),
        rows.actor("Counter", "07000000", state="PENDING_CREATION", pid=99),
        rows.actor("TrainController", "07000000", state="PENDING_CREATION"),
        rows.actor("Cleaner", "07000000", state="PENDING_CREATION", resources={"node:127.0.0.1": 0.001}),
    ],
)
def test_an_actor_that_needs_no_cpu_any_more_or_never_does_not_wait_for_one(actor: rows.Row) -> None:
    assert why(full(actor)) == {}


def test_what_ended_jobs_left_pending_is_not_told() -> None:
    api = Dashboard(
        jobs=(rows.job("gone", "STOPPED", driver="07000000"),),
        actors=(rows.supervisor("gone", GPU=2.0),),
        groups=(rows.pending_group("07000000", 1, GPU=2.0),),
        tasks=(rows.task("big", "07000000", GPU=2.0),),
    )
    assert why(api) == {}


def test_a_pending_job_with_room_is_starting() -> None:
    api = Dashboard(
        jobs=(rows.job("a", "PENDING"), rows.job("b", "PENDING"), rows.job("c", "PENDING")),
        actors=(rows.supervisor("a", GPU=1.0), rows.supervisor("b")),
    )
    assert {name: waiting.kind for name, waiting in why(api).items()} == dict.fromkeys("abc", "starting")


def test_a_later_job_does_not_count_on_what_an_earlier_one_is_starting_with() -> None:
    nodes = (rows.HEAD, rows.node("ray-worker-0", CPU=8.0, GPU=1.0))
    api = Dashboard(
        nodes=nodes,
        jobs=(rows.job("later", "PENDING", order=1), rows.job("first", "PENDING")),
        actors=(rows.supervisor("later", GPU=1.0), rows.supervisor("first", GPU=1.0)),
    )
    waiting = why(api)
    assert (waiting["first"].kind, waiting["later"].kind) == ("starting", "others")
    assert waiting["later"].held_by == "first (entrypoint, starting: 1 GPU on ray-worker-0)"


def test_an_actor_that_has_a_process_but_not_yet_a_place_is_not_waiting() -> None:
    nodes = (rows.HEAD, rows.node("ray-worker-0", CPU=8.0, GPU=1.0))
    api = Dashboard(
        nodes=nodes,
        jobs=(rows.job("first", "PENDING"), rows.job("placed", "PENDING", order=1)),
        actors=(rows.supervisor("first", GPU=1.0), rows.supervisor("placed", pid=99, GPU=1.0)),
    )
    waiting = why(api)
    assert (waiting["placed"].kind, waiting["first"].kind) == ("starting", "others")
    assert [h.job for h in waiting["first"].holders] == ["placed"]


def test_starting_is_not_told_of_running_jobs() -> None:
    api = Dashboard(
        jobs=(rows.job("train", driver="02000000"),),
        actors=(TRAIN,),
        groups=(rows.pending_group("02000000", 2, GPU=1.0),),
    )
    assert why(api) == {}


def test_infeasible_is_told_before_a_wait_for_others() -> None:
    api = Dashboard(
        jobs=(rows.job("a", driver="07000000", order=1), rows.job("b")),
        actors=(rows.supervisor("b", "ray-worker-0", GPU=1.0), rows.supervisor("b", "ray-worker-1", GPU=1.0)),
        tasks=(rows.task("small", "07000000", GPU=1.0), rows.task("big", "07000000", GPU=2.0)),
    )
    assert (why(api)["a"].kind, why(api)["a"].what) == ("infeasible", "task big")


def test_memory_is_told_in_gigabytes() -> None:
    api = Dashboard(
        nodes=(rows.HEAD, rows.node("ray-worker-0", CPU=8.0, memory=4e9)),
        jobs=(rows.job("a"), rows.job("b", "PENDING", order=1)),
        actors=(
            rows.supervisor("a", "ray-worker-0", memory=3e9, CPU=8.0),
            rows.supervisor("b", memory=2e9, CPU=8.0),
        ),
    )
    assert why(api)["b"].reason.startswith("needs 8 CPU and 2 GB memory; free: ")
