"""That a rank joins its process group only once rank 0 listens."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

from raylab_patches import connects
from raylab_recovery import rendezvous
from tests.fakes.host import FakeClock


class RayTorch:
    """Ray's module for torch, with a function that joins a process group."""

    def __init__(self) -> None:
        self.happened: list[Any] = []
        self.config = SimpleNamespace(_setup_torch_process_group=self._join)
        rendezvous.look_first(self.config, lambda *place: self.happened.append(place))

    def _join(self, *args: Any, **kwargs: Any) -> None:
        self.happened.append("joined")

    def join(self, rank: int, init_method: str) -> list[Any]:
        self.config._setup_torch_process_group(
            backend="gloo", world_rank=rank, world_size=2, init_method=init_method, timeout_s=1800
        )
        return self.happened


def test_a_rank_looks_for_rank_0_before_it_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "4711")
    assert RayTorch().join(1, "env://") == [("10.0.0.1", 4711), "joined"]
    assert RayTorch().join(1, "tcp://10.0.0.2:29500") == [("10.0.0.2", 29500), "joined"]


def test_rank_0_serves_and_looks_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "4711")
    assert RayTorch().join(0, "env://") == ["joined"]


@pytest.mark.parametrize("init_method", ["env://", "file:///shared/store", "tcp://host", "tcp://host:x"])
def test_where_the_place_is_not_known_a_rank_joins_at_once(init_method: str) -> None:
    assert rendezvous.meeting_place(init_method, {"MASTER_ADDR": "a"}) is None
    assert RayTorch().join(1, init_method) == ["joined"]


def test_a_second_change_changes_nothing() -> None:
    ray_torch = RayTorch()
    rendezvous.look_first(ray_torch.config, lambda *place: ray_torch.happened.append("twice"))
    assert ray_torch.join(1, "tcp://h:1") == [("h", 1), "joined"]


def test_the_look_ends_with_the_first_answer_and_its_pauses_grow() -> None:
    clock = FakeClock(0.0)
    answers: Iterator[bool] = iter([False] * 6 + [True])
    rendezvous.wait_for_listener("h", 1, lambda *_: next(answers), clock, clock.sleep)
    assert clock.slept == [0.005, 0.01, 0.02, 0.04, 0.05, 0.05]


def test_a_rank_0_that_never_listens_is_left_to_torch() -> None:
    clock = FakeClock(0.0)
    rendezvous.wait_for_listener("h", 1, lambda *_: False, clock, clock.sleep)
    assert rendezvous.PATIENCE_SECONDS <= clock.now < rendezvous.PATIENCE_SECONDS + 0.1


def test_a_port_that_takes_connections_is_told_from_one_that_refuses_them() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        place = listener.getsockname()
        assert not connects(*place)
        listener.listen()
        assert connects(*place)


def test_ray_joins_process_groups_with_that_function() -> None:
    import inspect

    from ray.train.torch import config

    names = list(inspect.signature(config._setup_torch_process_group).parameters)
    assert names[:4] == ["backend", "world_rank", "world_size", "init_method"]
