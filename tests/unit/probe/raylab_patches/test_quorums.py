"""Ranks with torchft that ask who takes part once for several steps, and agree for how many."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.train")

from raylab_patches.quorums import STEPS, agreed, ask_less, is_there, with_offer


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """One answer may be for many steps."""
    monkeypatch.setattr("raylab_patches.quorums.MOST_STEPS", 100)


def handle(**more: int) -> str:
    return json.dumps({"id": "a", "store": "here:1", "global_rank": 0, **more})


class Lighthouse:
    """Knows who takes part; each question is answered with what the others say, too."""

    def __init__(self) -> None:
        self.quorum_id, self.ranks, self.whole, self.heal = 1, 2, True, False
        self.others = [handle(**{STEPS: 100})]
        self.asked: list[int] = []

    def _quorum(self, *, step: int, reconfigure_handle: str) -> Any:
        self.asked.append(step)
        return SimpleNamespace(
            quorum_id=self.quorum_id,
            replica_world_size=self.ranks,
            max_world_size=self.ranks if self.whole else self.ranks - 1,
            heal=self.heal,
            reconfigure_handles=[reconfigure_handle, *self.others],
        )

    def should_commit(self, *vote: Any, **more: Any) -> bool:
        raise AssertionError("a rank that is a group by itself has nobody to ask")

    def kill(self, why: str) -> str:
        return why


class Group:
    def __init__(self) -> None:
        self.aborted = 0

    def abort(self) -> None:
        self.aborted += 1


def manager_class() -> Any:
    class Manager:
        def __init__(self, client: Any, size: int = 1) -> None:
            self._client, self._group_world_size, self._use_async_quorum = client, size, True
            self._quorum_future, self._pg, self.step = None, Group(), 0
            self.error: Exception | None = None

        def errored(self) -> Exception | None:
            return self.error

        def start_quorum(self, shrink_only: bool = False) -> None:
            self.error = None
            self._quorum_future = self._client._quorum(step=self.step, reconfigure_handle=handle())

        def should_commit(self) -> bool:
            committed = bool(self._client.should_commit(0, self.step, self.error is None, timeout=None))
            self.step += committed
            return committed

        def wrap_future(self, fut: Any, default: Any, timeout: Any = None) -> Any:
            return "watched"

    return Manager


class Rank:
    """A manager that takes steps of ten milliseconds."""

    def __init__(self, size: int = 1) -> None:
        self.now = 0.0
        self.lighthouse = Lighthouse()
        cls = manager_class()
        ask_less(cls, lambda: self.now)
        ask_less(cls, lambda: self.now)
        self.manager = cls(self.lighthouse, size)

    def take(self, steps: int, seconds: float = 0.01, error: Exception | None = None) -> list[int]:
        """Take steps; returns those before which the lighthouse was asked."""
        before = len(self.lighthouse.asked)
        for _ in range(steps):
            self.manager.start_quorum()
            self.now += seconds
            self.manager.error = error
            self.manager.should_commit()
        return self.lighthouse.asked[before:]


def test_one_answer_is_for_the_steps_of_a_tenth_of_a_second() -> None:
    assert Rank().take(25) == [0, 1, 11, 21], (
        "the first answer is for one step: nobody knows how long it takes"
    )
    assert Rank().take(6, seconds=0.04) == [0, 1, 3, 5]
    assert Rank().take(4, seconds=0.3) == [0, 1, 2, 3], "a step that is longer has an answer of its own"


def test_a_rank_follows_the_one_that_can_do_the_fewest_steps_without_asking() -> None:
    rank = Rank()
    rank.lighthouse.others = [handle(**{STEPS: 3}), handle(**{STEPS: 50})]
    rank.lighthouse.ranks = 3
    assert rank.take(9) == [0, 1, 4, 7]


@pytest.mark.parametrize("others", [[handle()], ["bytes of torch's own"], [], [handle(**{STEPS: 0})]])
def test_who_says_nothing_is_asked_with_before_each_step(others: list[str]) -> None:
    rank = Rank()
    rank.lighthouse.others = others
    assert rank.take(4) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "unusual",
    [{"ranks": 1, "others": []}, {"whole": False}, {"heal": True}],
    ids=["alone", "a rank behind the others", "given a state"],
)
def test_the_lighthouse_is_asked_before_each_step_while_something_is_not_as_usual(
    unusual: dict[str, Any],
) -> None:
    rank = Rank()
    rank.take(3)
    vars(rank.lighthouse).update(unusual)
    rank.take(10)
    assert rank.take(4) == [13, 14, 15, 16]


def test_the_first_answer_with_other_ranks_is_for_one_step() -> None:
    rank = Rank()
    rank.take(11)
    rank.lighthouse.quorum_id = 2
    assert rank.take(12) == [11, 12, 22]


def test_a_step_that_does_not_count_closes_the_connections_and_the_next_one_asks() -> None:
    rank = Rank()
    rank.take(4)
    assert rank.manager._pg.aborted == 0
    assert rank.take(1, error=RuntimeError("connection closed")) == []
    assert rank.manager._pg.aborted == 1
    assert rank.take(2) == [4, 5], "the number of the step that did not count, again"
    rank.manager.error = RuntimeError("after the step")
    assert rank.take(1) == [6]


def test_a_question_of_the_scripts_own_is_asked() -> None:
    rank = Rank()
    rank.take(4)
    rank.manager.start_quorum(shrink_only=True)
    assert rank.lighthouse.asked[-1] == 4


def test_ranks_that_share_a_group_ask_as_before() -> None:
    class Shared(Lighthouse):
        def should_commit(self, *vote: Any, **more: Any) -> bool:
            return False

    rank = Rank(size=2)
    rank.manager._client = shared = Shared()
    for _ in range(3):
        rank.manager.start_quorum()
        assert not rank.manager.should_commit(), "the others' votes count"
    assert (shared.asked, rank.manager._pg.aborted) == ([0, 0, 0], 0)


def test_all_else_of_the_client_is_torchfts() -> None:
    assert Rank().manager._client.kill("why") == "why"


def test_what_a_rank_tells_the_others_keeps_what_torchft_needs() -> None:
    assert json.loads(with_offer(handle(), 7)) == {"id": "a", "store": "here:1", "global_rank": 0, STEPS: 7}
    assert with_offer("not JSON", 7) == "not JSON"
    assert with_offer("[1]", 7) == "[1]"
    assert agreed([handle(**{STEPS: 7}), handle(**{STEPS: 4})], 2) == 4


def test_a_sum_that_is_there_is_not_watched_and_others_are() -> None:
    torch = pytest.importorskip("torch")
    rank = Rank()
    done, failed, waiting = (torch.futures.Future() for _ in range(3))
    done.set_result(5)
    failed.set_exception(RuntimeError("connection closed"))
    assert rank.manager.wrap_future(done, 0) is done or torch.accelerator.is_available()
    assert [is_there(fut) for fut in (failed, waiting)] == [False, False]
    assert [rank.manager.wrap_future(fut, 0) for fut in (failed, waiting)] == ["watched", "watched"]
