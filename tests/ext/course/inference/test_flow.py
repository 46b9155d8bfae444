"""Losing a node under a batch of inference."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cluster.api import Node
from lab.cluster.jobs import Job
from lab.errors import NotFoundError, RefusedError
from lab.ext.course.inference import batch_of, lose_node
from tests.ext.course.inference.test_receipt import evidence
from tests.ext.course.lessons.world import NODES, job
from tests.fakes.host import FakeClock
from tests.fakes.store import FakeObjectStore


class BatchLab:
    """A lab with a batch that gets an answer each time it is looked at, and ends when an attempt was lost.

    `idle` kills hit no prompt. A killed node is one again, with its replica, after some looks.
    """

    def __init__(self, total: int = 9, idle: int = 0) -> None:
        self.store, self.total, self.idle = FakeObjectStore(), total, idle
        self.done: list[str] = []
        self.replicas = ["ray-worker-0", "ray-worker-1"]
        self.status = "RUNNING"
        self.away: dict[str, int] = {}
        self.jobs = SimpleNamespace(get=self.get, logs=self.logs)
        self.control = SimpleNamespace(kill=self.kill, start=self.start)
        self.api = SimpleNamespace(nodes=self.nodes, rows=self.rows)

    def kill(self, name: str) -> None:
        self.done.append(f"kill {name}")
        self.away[name] = 3

    def start(self, name: str, wait: bool) -> None:
        self.done.append(f"start {name}")

    def nodes(self) -> list[Node]:
        self.away = {name: looks - 1 for name, looks in self.away.items() if looks}
        return [replace(node, alive=node.service not in self.away) for node in NODES]

    def lost(self) -> int:
        return sum(1 for done in self.done if done.startswith("kill")) - self.idle

    def logs(self, name: str) -> str:
        return "".join(f"p1: attempt {number} lost: broken\n" for number in range(1, self.lost() + 1))

    def rows(self, what: str, read: Any) -> list[str]:
        assert what == "actors"
        rows: list[dict[str, Any]] = [
            {"class_name": "ServeReplica:llm-j-01000000:engine", "state": "ALIVE", "node_id": f"id-of-{name}"}
            for name in self.replicas
        ]
        rows += [
            {"class_name": f"ServeReplica:llm-{name}:engine", "state": state, "node_id": "id-of-ray-worker-1"}
            for name, state in (("j-01000000", "DEAD"), ("jj-02000000", "ALIVE"))
        ]
        rows += [{"class_name": "ServeController", "state": "ALIVE", "node_id": "id-of-ray-head"}]
        return [read(row) for row in rows]

    def get(self, name: str) -> Job:
        answers = len(self.store.list("batches/mine/"))
        if self.lost() > 0 or answers == self.total:
            self.status = "SUCCEEDED"
            self.store.put(f".raylab/inference/{name}.json", json.dumps(evidence()).encode())
        else:
            self.store.put(f"batches/mine/answers/p{answers}.x.json", b"{}")
        return job(name, self.status, entrypoint="python batch.py --from run --name mine --port 8000")


def test_a_node_with_a_replica_is_killed_once_answers_are_there_and_started_again() -> None:
    batch, said = BatchLab(), list[str]()
    receipt = lose_node(batch, "j", "", 4, said.append, FakeClock())  # type: ignore[arg-type]
    assert batch.done == ["kill ray-worker-0", "start ray-worker-0"]
    assert said[0] == "4 answers are there; ray-worker-0 is killed"
    assert receipt.verdict.value == "recovered"


@pytest.mark.parametrize("target", ["", "ray-worker-1"])
def test_a_kill_that_hits_no_prompt_is_repeated_once_the_node_is_back(target: str) -> None:
    batch, said, clock = BatchLab(total=99, idle=2), list[str](), FakeClock()
    lose_node(batch, "j", target, 4, said.append, clock)  # type: ignore[arg-type]
    name = target or "ray-worker-0"
    assert batch.done == [f"kill {name}", f"start {name}"] * 3
    assert said.count(f"no prompt was in progress on {name}") == 2
    assert batch.status == "SUCCEEDED"


def test_kills_that_hit_nothing_come_to_an_end() -> None:
    batch = BatchLab(total=200, idle=99)
    lose_node(batch, "j", "", 1, lambda _: None, FakeClock())  # type: ignore[arg-type]
    assert batch.done == ["kill ray-worker-0", "start ray-worker-0"] * 5
    assert batch.status == "SUCCEEDED"


def test_a_batch_that_ends_before_the_node_is_back_is_not_broken_again() -> None:
    batch = BatchLab(total=14, idle=99)
    batch.nodes = lambda: [replace(node, alive=not batch.done) for node in NODES]  # type: ignore[method-assign]
    batch.api.nodes = batch.nodes
    said = list[str]()
    lose_node(batch, "j", "", 1, said.append, FakeClock())  # type: ignore[arg-type]
    assert batch.done == ["kill ray-worker-0", "start ray-worker-0"]
    assert said[-1] == "job j has ended: SUCCEEDED"


def test_the_node_that_was_asked_for_is_killed_or_refused() -> None:
    batch = BatchLab()
    lose_node(batch, "j", "ray-worker-1", 1, lambda _: None, FakeClock())  # type: ignore[arg-type]
    assert batch.done[0] == "kill ray-worker-1"
    batch = BatchLab()
    batch.replicas = ["ray-worker-0"]
    with pytest.raises(RefusedError, match="ray-worker-1"):
        lose_node(batch, "j", "ray-worker-1", 1, lambda _: None, FakeClock())  # type: ignore[arg-type]
    batch.replicas = []
    with pytest.raises(NotFoundError, match="has no replica"):
        lose_node(batch, "j", "", 1, lambda _: None, FakeClock())  # type: ignore[arg-type]
    assert batch.done == []


def test_a_batch_that_has_ended_is_not_broken() -> None:
    batch = BatchLab(total=2)
    with pytest.raises(RefusedError, match="has ended"):
        lose_node(batch, "j", "", 5, lambda _: None, FakeClock())  # type: ignore[arg-type]
    assert batch.done == []


def test_the_node_is_started_again_when_the_kill_fails() -> None:
    batch = BatchLab()

    def broken(name: str) -> None:
        raise RuntimeError("bug")

    batch.control.kill = broken
    with pytest.raises(RuntimeError, match="bug"):
        lose_node(batch, "j", "", 1, lambda _: None, FakeClock())  # type: ignore[arg-type]
    assert batch.done == ["start ray-worker-0"]


def test_a_batch_has_the_name_that_it_was_given_or_that_of_its_job() -> None:
    assert batch_of(job("j", entrypoint="python batch.py --name 'a b' --port 1")) == "a b"
    assert batch_of(job("j", entrypoint="python batch.py --from x")) == "j"
