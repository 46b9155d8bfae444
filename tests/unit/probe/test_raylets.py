"""Who asks for processes, and which of them are counted as ready."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from raylab_probe import warm
from raylab_probe.raylets import CLAIM_SECONDS, KEEP_SECONDS, Claims, Raylets

WHERE = "07000000/-42/abc"


class Store:
    """Ray's key-value store, in memory."""

    def __init__(self) -> None:
        self.kept: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.kept.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        self.kept[key] = value

    def add(self, key: bytes, value: bytes) -> bool:
        return self.kept.setdefault(key, value) is value

    def delete(self, key: bytes) -> None:
        self.kept.pop(key, None)

    def keys(self, prefix: bytes) -> Sequence[bytes]:
        return [key for key in self.kept if key.startswith(prefix)]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def claims(store: Store, clock: Clock) -> Claims:
    return Claims(store, clock)


def test_of_several_runs_of_a_job_one_asks(store: Store, clock: Clock, claims: Claims) -> None:
    assert claims.claim(WHERE, ["torch"])
    assert not Claims(store, clock).claim(WHERE, ["torch"])


def test_what_is_asked_for_is_told_which_modules_to_import(store: Store, claims: Claims) -> None:
    claims.claim(WHERE, ["torch", "numpy"])
    assert warm.unpacked(store.kept[warm.modules_key(WHERE)]) == ["torch", "numpy"]


def test_a_process_that_never_got_ready_is_asked_for_again(clock: Clock, claims: Claims) -> None:
    claims.claim(WHERE, [])
    clock.now += CLAIM_SECONDS - 1
    assert not claims.claim(WHERE, [])
    clock.now += 2
    assert claims.claim(WHERE, [])
    assert not claims.claim(WHERE, [])


def test_once_it_is_ready_the_next_that_is_missing_may_be_asked_for(claims: Claims) -> None:
    claims.claim(WHERE, [])
    claims.settle(WHERE)
    assert claims.claim(WHERE, [])


def test_a_process_with_work_stands_by_no_longer_and_a_dead_one_is_forgotten(
    store: Store, claims: Claims
) -> None:
    for pid in (1, 2, 3):
        store.put(warm.ready_key(WHERE, pid), b"1")
    store.put(warm.ready_key("07000000/-42/other", 9), b"1")

    assert claims.ready(WHERE, living={1, 2, 9}, busy={2}) == 1
    assert warm.ready_key(WHERE, 3) not in store.kept
    assert warm.ready_key(WHERE, 2) in store.kept


def test_the_end_of_a_run_leaves_no_orders(store: Store, claims: Claims) -> None:
    claims.claim(WHERE, ["torch"])
    claims.forget(WHERE)
    assert store.kept == {}


def test_a_process_is_asked_for_with_the_very_environment_of_the_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, Any]] = []
    raylets = Raylets()
    monkeypatch.setattr(raylets, "_call", lambda node, method, request: asked.append((method, request)))
    environment = (
        '{"working_dir": "gcs://_ray_pkg_1.zip",  "env_vars": {"A": "1"}}'  # two blanks: as Ray wrote it
    )

    raylets.prestart({"NodeID": "a"}, "07000000", environment, 2)

    ((method, request),) = asked
    assert method == "PrestartWorkers"
    assert request.runtime_env_info.serialized_runtime_env == environment
    assert request.runtime_env_info.uris.working_dir_uri == "gcs://_ray_pkg_1.zip"
    assert (request.job_id.hex(), request.num_workers) == ("07000000", 2)
    assert request.keep_alive_duration_secs == KEEP_SECONDS


def test_rays_service_has_what_is_called() -> None:
    from ray.core.generated import node_manager_pb2

    methods = node_manager_pb2.DESCRIPTOR.services_by_name["NodeManagerService"].methods_by_name
    assert {"PrestartWorkers", "GetWorkerPIDs"} <= set(methods)
