"""The recipe `digits`: what it must not save, what its ranks train on, and what their neighbours keep."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.recipes import modules_of
from tests.waiting import eventually

CONFIG = {"seed": 7, "batch_size": 16, "workers": 2}


@pytest.fixture(scope="module")
def digits() -> Iterator[Any]:
    """Every module of the recipe, by its name."""
    with modules_of("digits") as modules:
        yield modules


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_the_attempt_before_anything_is_saved(
    digits: Any, loss: float
) -> None:
    with pytest.raises(FloatingPointError, match=r"epoch 4 is (nan|inf)"):
        digits.common.check_finite(loss, "epoch 4")
    digits.common.check_finite(0.5, "epoch 4")


def test_the_images_of_a_step_do_not_depend_on_the_number_of_workers(digits: Any) -> None:
    import torch
    from torch.utils.data import TensorDataset

    images = TensorDataset(torch.arange(1440))

    def steps(world_size: int) -> list[set[int]]:
        loaders = [digits.train.train_loader(images, CONFIG, rank, world_size) for rank in range(world_size)]
        for loader in loaders:
            loader.sampler.set_epoch(3)
        return [
            set(torch.cat([batch[0] for batch in batches]).tolist()) for batches in zip(*loaders, strict=True)
        ]

    assert steps(1) == steps(2)
    assert len(steps(2)) == 45
    assert len(steps(4)) == 45


def test_the_order_of_any_step_is_the_same_for_one_worker_as_for_two(digits: Any) -> None:
    import torch
    from torch.utils.data import TensorDataset

    images = TensorDataset(torch.arange(1440), torch.arange(1440))

    def taken(world_size: int, step: int) -> list[int]:
        orders = [digits.steps.Order(images, CONFIG, rank, world_size) for rank in range(world_size)]
        return [int(n) for order in orders for n in order.batch(step)[0]]

    for step in (0, 44, 45, 100):
        assert taken(1, step) == taken(2, step)
        assert len(taken(2, step)) == 32
    assert taken(2, 0) != taken(2, 45)


def node(name: str, cpus: float = 8, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "Alive": alive, "Resources": {"CPU": cpus} if cpus else {}}


@pytest.mark.parametrize(
    ("nodes", "neighbour"),
    [
        ([node("a"), node("b"), node("head", 0)], "b"),
        ([node("a"), node("b", alive=False), node("c"), node("head", 0)], "c"),
        ([node("a"), node("b", alive=False), node("head", 0)], "head"),
        ([node("a")], "a"),
    ],
)
def test_a_state_is_kept_on_another_node_while_there_is_one(
    digits: Any, nodes: list[dict[str, Any]], neighbour: str
) -> None:
    assert digits.neighbours.neighbour_of("a", nodes) == neighbour


def test_a_keeper_takes_newer_states_only(digits: Any) -> None:
    keeper = digits.neighbours.Keeper()
    assert keeper.step() == -1
    keeper.keep(20, b"new")
    keeper.keep(10, b"old")
    assert keeper.step() == 20


class FakeKeeper:
    """A keeper that has a state of this step, or is gone."""

    def __init__(self, step: int, gone: bool = False) -> None:
        answer = RuntimeError("the node is lost") if gone else step
        self.step = SimpleNamespace(remote=lambda: answer)
        self.state = SimpleNamespace(remote=lambda run: (f"state {step} of {run}".encode(), "there"))


@pytest.fixture
def neighbours(digits: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The actor that knows the keepers, in this process: Ray's references are the values themselves."""

    def get(value: Any, timeout: float = 0.0) -> Any:
        if isinstance(value, RuntimeError):
            raise value
        return value

    fake = SimpleNamespace(get=get, wait=lambda refs, num_returns, timeout: (refs, []))
    monkeypatch.setattr(digits.neighbours, "ray", fake)
    monkeypatch.setattr(digits.neighbours, "RayError", RuntimeError)
    return digits.neighbours.Neighbours()


def test_the_newest_state_of_any_keeper_that_is_left_is_given(neighbours: Any) -> None:
    assert neighbours.newest(-1, "r") is None
    neighbours._keepers = {
        0: ("b", FakeKeeper(30)), 1: ("a", FakeKeeper(40, gone=True)), 2: ("c", FakeKeeper(20))
    }  # fmt: skip
    assert neighbours.newest(10, "r") == (b"state 30 of r", "there")
    assert neighbours.newest(30, "r") is None  # the checkpoint is as new


def test_a_worker_keeps_its_keeper_while_that_answers_from_another_node(neighbours: Any) -> None:
    kept = FakeKeeper(30)
    neighbours._keepers = {0: ("b", kept)}
    assert neighbours.keeper(0, "a") is kept


def test_a_state_is_handed_over_and_survives_the_way(digits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    sent: dict[int, bytes] = {}
    monkeypatch.setattr(digits.neighbours, "ray", SimpleNamespace(get=lambda value, timeout: value))
    keeper = SimpleNamespace(
        keep=SimpleNamespace(remote=sent.__setitem__), step=SimpleNamespace(remote=lambda: -1)
    )
    hand_over = digits.neighbours.HandOver(lambda: keeper, 1)
    state: dict[str, Any] = {"step": 3, "model": {"weight": torch.arange(4.0)}}
    hand_over.send(3, digits.neighbours.packed(state))
    received = digits.neighbours.unpacked(sent[3])
    assert received["step"] == 3
    assert torch.equal(received["model"]["weight"], state["model"]["weight"])
    assert hand_over.sent_bytes == len(sent[3])


class Slow:
    """A keeper that takes so many seconds to take a state, by a clock that only it moves."""

    def __init__(self) -> None:
        self.now, self.seconds = 0.0, 0.0
        self.keep, self.step = SimpleNamespace(remote=self._keep), SimpleNamespace(remote=self._start)
        self.fails = False

    def _start(self) -> None:
        self.now += 7.0

    def _keep(self, step: int, data: bytes) -> None:
        self.now += self.seconds
        if self.fails:
            raise RuntimeError("the node is lost")


@pytest.fixture
def slow(digits: Any, monkeypatch: pytest.MonkeyPatch) -> Slow:
    monkeypatch.setattr(digits.neighbours, "ray", SimpleNamespace(get=lambda value, timeout: value))
    return Slow()


def sent(hand_over: Any, step: int) -> None:
    """Offer a state, and wait until the thread has done with it."""
    hand_over.offer(step, {"step": step})
    eventually(lambda: not hand_over._busy, 60, "the state is sent", sleep=lambda _: None)


def test_copies_take_at_most_a_twentieth_of_the_time(digits: Any, slow: Slow) -> None:
    hand_over = digits.neighbours.HandOver(lambda: slow, 1, lambda: slow.now)
    assert hand_over.due(), "there is none yet"
    slow.seconds = 0.02
    sent(hand_over, 10)
    slow.now += 0.3
    assert hand_over.due(), "the seven seconds that its keeper took to start do not count"
    sent(hand_over, 20)
    began = slow.now - 0.02
    slow.now = began + 0.39
    assert not hand_over.due()
    slow.now = began + 0.4001
    assert hand_over.due()


@pytest.mark.parametrize("ten_steps", [0.01, 0.3, 10.0])
@pytest.mark.parametrize("cost", [0.001, 0.03, 1.0])
def test_copies_of_all_ranks_take_a_twentieth_of_the_time_however_they_scatter(
    digits: Any, slow: Slow, monkeypatch: pytest.MonkeyPatch, ten_steps: float, cost: float
) -> None:
    def copied(state: Any) -> bytes:
        slow.now += spent[-1] / 4
        slow.seconds = spent[-1] * 3 / 4
        return b""

    slow.step.remote = lambda: None
    monkeypatch.setattr(digits.neighbours, "packed", copied)
    ranks = [digits.neighbours.HandOver(lambda: slow, 2, lambda: slow.now) for _ in range(2)]
    spent: list[float] = []
    warm = 0.0
    while len(spent) < 56:
        for hand_over in ranks:
            slow.now += ten_steps
            if hand_over.due():
                spent.append(cost * (3.4 if len(spent) // 2 % 4 == 3 else 0.2))
                sent(hand_over, len(spent))
        if len(spent) <= 8:
            warm = slow.now
    share = sum(spent[8:]) / (slow.now - warm)
    assert share < 0.0525
    assert share > 0.045 or ten_steps > cost / 10, "copies are rarer than they need be"


def test_while_a_state_is_on_its_way_none_is_due_and_one_that_is_lost_does_not_end_that(
    digits: Any, slow: Slow, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_over = digits.neighbours.HandOver(lambda: slow, 1, lambda: slow.now)
    hand_over._busy = True
    assert not hand_over.due()
    slow.fails = True
    sent(hand_over, 10)
    assert "step 10 could not be handed over" in capsys.readouterr().out
    assert hand_over.due()


def test_ranks_take_turns_with_the_copies(digits: Any) -> None:
    offered: dict[int, list[int]] = {0: [], 1: []}
    for rank, steps in offered.items():
        hand_over = SimpleNamespace(due=lambda: True, offer=lambda step, state, to=steps: to.append(step))
        training = object.__new__(digits.steps.FromMemory)
        vars(training).update(
            step=0, rank=rank, world_size=2, config={"keep_every": 10}, hand_over=hand_over, state=dict
        )
        assert all(training.took_step() for _ in range(45))
    assert offered == {0: [20, 40], 1: [10, 30]}
