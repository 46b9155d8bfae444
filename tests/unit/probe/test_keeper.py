"""When and where processes are asked to stand by."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from raylab_probe import warm
from raylab_probe.keeper import PATIENCE_SECONDS, TURN_SECONDS, Keeper, Recipe, imported, merged, wanted
from raylab_probe.raylets import Claims, Process, Raylets
from tests.unit.probe.test_raylets import Clock, Store

JOB = "07000000"
RANK = Recipe('{"env": 1}', "11", ("torch",))
BESIDE = Recipe('{"env": 1}', "11", ("ray",))
GPU = {"CPU": 1.0, "GPU": 1.0}


def node(name: str, cpus: float = 8, gpus: float = 1, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "Alive": alive, "Resources": {"CPU": cpus, "GPU": gpus}}


class Cluster(Raylets):
    """Raylets that start what they are asked for."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.there = [node("head", 0, 0), node("a"), node("b")]
        self.asked: list[tuple[str, str, int]] = []
        self.working: set[Process] = set()
        self.broken: set[str] = set()
        self.slow: set[str] = set()
        """Nodes whose processes never get ready."""
        self.living: dict[str, set[int]] = {}
        self.started = 100

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        return self.there

    def pids(self, node: Mapping[str, Any]) -> frozenset[int]:
        if node["NodeID"] in self.broken:
            raise TimeoutError("frozen")
        return frozenset(self.living.get(node["NodeID"], set()))

    def busy(self, job: str) -> frozenset[Process]:
        return frozenset(self.working)

    def prestart(self, node: Mapping[str, Any], job: str, environment: str, count: int) -> None:
        name = str(node["NodeID"])
        self.asked.append((name, environment, count))
        for _ in range(count):
            self.started += 1
            self.living.setdefault(name, set()).add(self.started)
            if name not in self.slow:
                self.store.put(warm.ready_key(warm.place(job, "11", name), self.started), b"1")

    def places(self) -> list[str]:
        return [name for name, _, _ in self.asked]


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def cluster(store: Store) -> Cluster:
    return Cluster(store)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(cluster: Cluster, store: Store, clock: Clock) -> Keeper:
    return Keeper(cluster, Claims(store, clock), JOB, "head", lambda: BESIDE, limit=2, clock=clock)


def trains(
    keeper: Keeper, describe: Callable[[], Recipe] = lambda: RANK, ranks: Sequence[str] = ("a",)
) -> None:
    keeper.train(describe, GPU, ranks)
    keeper.reported()


def look(keeper: Keeper, times: int = 4) -> None:
    for _ in range(times):
        keeper.look()


def test_nothing_is_asked_for_before_the_training_reports(keeper: Keeper, cluster: Cluster) -> None:
    keeper.look()
    keeper.train(lambda: RANK, GPU, ["a"])
    look(keeper)
    assert cluster.asked == []


def test_one_that_does_not_report_gets_its_processes_later(
    keeper: Keeper, cluster: Cluster, clock: Clock
) -> None:
    keeper.train(lambda: RANK, GPU, ["a"])
    clock.now += PATIENCE_SECONDS
    look(keeper)
    assert cluster.places() == ["head", "b", "a"]


def test_each_node_that_can_take_a_rank_is_asked_once_the_most_useful_first(
    keeper: Keeper, cluster: Cluster
) -> None:
    trains(keeper)
    look(keeper, 6)
    assert cluster.asked == [(name, RANK.environment, 1) for name in ("head", "b", "a")]


def test_one_node_at_a_time_starts_processes_unless_it_takes_too_long(
    keeper: Keeper, cluster: Cluster, clock: Clock
) -> None:
    cluster.slow = {"b"}
    trains(keeper)
    look(keeper)
    assert cluster.places() == ["head", "b"]
    clock.now += TURN_SECONDS
    look(keeper)
    assert cluster.places() == ["head", "b", "a"]


def test_what_another_run_has_asked_for_is_not_waited_for(
    keeper: Keeper, cluster: Cluster, store: Store, clock: Clock
) -> None:
    cluster.slow = {"b"}
    other = Keeper(cluster, Claims(store, clock), JOB, "head", lambda: BESIDE, limit=2, clock=clock)
    trains(other)
    look(other)
    trains(keeper)
    look(keeper)
    assert cluster.places() == ["head", "b", "a"]


def test_what_an_attempt_has_taken_is_asked_for_again(keeper: Keeper, cluster: Cluster) -> None:
    trains(keeper)
    look(keeper)
    cluster.working = {("b", pid) for pid in cluster.living["b"]}
    cluster.asked.clear()
    trains(keeper, ranks=["b"])
    look(keeper)
    assert cluster.places() == ["b"]


def test_a_node_that_joins_is_asked_too_and_one_that_died_is_not(keeper: Keeper, cluster: Cluster) -> None:
    trains(keeper)
    look(keeper)
    cluster.asked.clear()
    cluster.there = [node("head", 0, 0), node("a", alive=False), node("b"), node("c")]
    look(keeper)
    assert cluster.places() == ["c"]


def test_nothing_is_asked_for_while_an_attempt_starts(keeper: Keeper, cluster: Cluster) -> None:
    trains(keeper)
    keeper.rest()
    keeper.look()
    assert cluster.asked == []


def test_a_frozen_node_does_not_keep_the_others_waiting(
    keeper: Keeper, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.broken = {"a"}
    trains(keeper)
    look(keeper)
    assert cluster.places() == ["head", "b"]
    assert capsys.readouterr().out.count("no process stands by") == 1


def test_a_rank_that_does_not_answer_breaks_nothing(
    keeper: Keeper, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent() -> Recipe:
        raise TimeoutError("the rank is gone")

    trains(keeper, silent)
    keeper.look()
    keeper.look()
    assert cluster.asked == []
    assert capsys.readouterr().out.count("the rank is gone") == 1


def test_a_process_without_a_runtime_environment_of_its_own_is_not_asked_for(
    keeper: Keeper, cluster: Cluster
) -> None:
    trains(keeper, lambda: Recipe("", "", ()))
    look(keeper)
    assert cluster.places() == ["head"]


def test_the_end_takes_the_orders_back(keeper: Keeper, store: Store) -> None:
    trains(keeper)
    look(keeper)
    keeper.end()
    assert [key for key in store.kept if not key.startswith(b"ready/")] == []


def test_where_ranks_and_controller_share_a_node_there_is_one_for_each() -> None:
    both = Recipe(RANK.environment, RANK.hash, ("torch", "ray"))
    assert merged((RANK, 1), (BESIDE, 1)) == [(both, 2)]
    other = Recipe("{}", "12", ("ray",))
    assert merged((RANK, 1), (other, 1)) == [(RANK, 1), (other, 1)]
    assert merged((RANK, 0), (BESIDE, 1)) == [(RANK, 0), (BESIDE, 1)]


@pytest.mark.parametrize(
    ("resources", "ranks", "limit", "count"),
    [
        (GPU, 2, 2, 1),  # one GPU
        ({"CPU": 1}, 2, 2, 2),
        ({"CPU": 1}, 1, 2, 1),
        ({"CPU": 1}, 8, 2, 2),
        ({"CPU": 16}, 1, 2, 0),
        ({"CPU": 1, "TPU": 1}, 1, 2, 0),
        ({"CPU": 0}, 1, 2, 1),
        ({"CPU": 0.1, "GPU": 0.1}, 9, 16, 9),
    ],
)
def test_as_many_stand_by_as_ranks_fit(
    resources: Mapping[str, float], ranks: int, limit: int, count: int
) -> None:
    assert wanted(node("a"), resources, ranks, limit) == count


def test_the_users_own_modules_are_not_imported_for_him() -> None:
    def module(name: str, origin: str | None, spec_name: str = "") -> ModuleType:
        made = ModuleType(name)
        made.__spec__ = type(sys.__spec__)(spec_name or name, None, origin=origin)
        return made

    modules = {
        "torch": module("torch", "/site-packages/torch/__init__.py"),
        "helper": module("helper", "/tmp/ray/s/runtime_resources/working_dir_files/_ray_pkg_1/helper.py"),
        "mine": module("mine", "/tmp/ray/s/runtime_resources/py_modules_files/x/mine.py"),
        "__main__": module("__main__", "/x/default_worker.py"),
        "alias": module("alias", "/site-packages/other.py", "other"),
        "made_up": ModuleType("made_up"),
        "nothing": None,
        "torch.nn": module("torch.nn", "/site-packages/torch/nn/__init__.py"),
    }
    assert imported(modules) == ("torch", "torch.nn")
