"""Ranks with torchft that are their whole replica group do not ask whether a step counts."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ray.train")

from raylab_recovery.lone_vote import is_there, vote_alone


class Service:
    """The manager of a group, in which another rank says no."""

    def __init__(self) -> None:
        self.asked = 0

    def should_commit(self, group_rank: int, step: int, should_commit: bool, timeout: Any) -> bool:
        self.asked += 1
        return False

    def kill(self, why: str) -> str:
        return why


def rank(size: int) -> Any:
    """A manager as torchft's, in a group of so many ranks."""

    class Manager:
        def __init__(self, client: Any) -> None:
            self._client, self._group_world_size = client, size

        def should_commit(self, vote: bool) -> bool:
            return bool(self._client.should_commit(0, 7, vote, timeout=None))

        def wrap_future(self, fut: Any, default: Any, timeout: Any = None) -> Any:
            return "watched"

    vote_alone(Manager)
    vote_alone(Manager)
    return Manager(Service())


def test_a_rank_that_is_its_whole_group_has_nobody_to_ask() -> None:
    alone = rank(1)
    assert (alone.should_commit(True), alone.should_commit(False), alone._client.asked) == (True, False, 0)
    assert alone._client.kill("all else is torchft's") == "all else is torchft's"


def test_ranks_that_share_a_group_ask_as_before() -> None:
    shared = rank(2)
    assert (shared.should_commit(True), shared._client.asked) == (False, 1)


def test_a_sum_that_is_there_is_not_watched_and_others_are() -> None:
    torch = pytest.importorskip("torch")
    manager = rank(1)
    done, failed, waiting = (torch.futures.Future() for _ in range(3))
    done.set_result(5)
    failed.set_exception(RuntimeError("connection closed"))
    assert manager.wrap_future(done, 0) is done or torch.accelerator.is_available()
    assert [is_there(fut) for fut in (failed, waiting)] == [False, False]
    assert [manager.wrap_future(fut, 0) for fut in (failed, waiting)] == ["watched", "watched"]
