"""The recipe `digits`: what it must not save, what its ranks train on, and what their neighbours keep."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.recipes import modules_of

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
    keeper = SimpleNamespace(keep=SimpleNamespace(remote=sent.__setitem__))
    hand_over = digits.neighbours.HandOver(lambda: keeper)
    state: dict[str, Any] = {"step": 3, "model": {"weight": torch.arange(4.0)}}
    hand_over.send(3, digits.neighbours.packed(state))
    received = digits.neighbours.unpacked(sent[3])
    assert received["step"] == 3
    assert torch.equal(received["model"]["weight"], state["model"]["weight"])
    assert hand_over.sent_bytes == len(sent[3])
