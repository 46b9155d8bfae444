"""The chain of states that a rank records: what it trains on from, and what it hands over."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.optim.swa_utils import AveragedModel

from raylab_ledger import chain as module
from raylab_ledger.boosters import NO_TREES, Booster
from raylab_ledger.chain import Chain
from raylab_ledger.tensors import digest


class Rank:
    """A process of a training whose recorder writes into a list. PyTorch's hooks are called by hand."""

    def __init__(self, model: torch.nn.Module | None = None, **options: Any) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.numbers: list[int] = []
        self.now = 0.0
        self.chain = Chain(
            lambda event, **fields: self.events.append((event, fields)),
            self.numbers.append,
            clock=self._tick,
        )
        self.model = model or torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        self.adam = torch.optim.Adam(self.model.parameters(), **options)

    def _tick(self) -> float:
        self.now += 1e-4
        return self.now

    def step(self, optimizer: torch.optim.Optimizer | None = None, closure: Any = None) -> None:
        optimizer = optimizer or self.adam
        if closure is None:
            self.model.zero_grad()
            self.model(torch.ones(4, 4).cumsum(0)).square().sum().backward()
        self.chain.before_step(optimizer, (), {})
        optimizer.step(closure)
        self.chain.after_step(optimizer, (), {})

    def report(self, *, checkpoint: bool = True) -> int:
        return self.chain.hand_over({"epoch": 1}, checkpoint=checkpoint)

    def all(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]

    @property
    def begun(self) -> list[dict[str, Any]]:
        return self.all("state_begun")

    @property
    def handed(self) -> list[dict[str, Any]]:
        return self.all("state_handed")


def test_a_rank_that_loads_begins_with_what_was_handed_over() -> None:
    old, new = Rank(), Rank()
    old.step()
    assert old.report() == 1
    new.model.load_state_dict(old.model.state_dict())
    new.adam.load_state_dict(old.adam.state_dict())
    new.step()
    (handed,), (begun,) = old.handed, new.begun
    trained = handed["state"]["order"][0]
    assert trained == ["0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias"]
    for part in ("tensors", "moments"):
        assert {k: v for k, v in begun["state"][part].items() if "1.running" not in k and "num" not in k} == {
            k: v for k, v in handed["state"][part].items() if "1.running" not in k and "num" not in k
        }
    assert (handed["report"], handed["handed"], handed["changed"]) == (1, True, [])
    assert (begun["steps"], begun["gradients"], begun["optimizer"]) == (0, True, 0)


def test_an_optimizers_state_is_that_of_its_parameters_in_whatever_order_it_has_them() -> None:
    def restored(names: list[str], places: list[int]) -> str:
        model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
        model.load_state_dict(weights)
        new = Rank(model)
        new.adam = torch.optim.Adam([model.get_parameter(name) for name in names])
        states = {n: saved["state"][place] for n, place in enumerate(places)}
        new.adam.load_state_dict({**saved, "state": states})
        new.chain.before_step(new.adam, (), {})
        return str(new.chain._begun[0][0]["moments"]["0"])

    old = Rank(torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)))
    old.model(torch.eye(3)).square().sum().backward()
    old.adam.step()
    weights, saved = old.model.state_dict(), old.adam.state_dict()
    own = restored(["0.weight", "1.weight"], [0, 1])
    assert restored(["1.weight", "0.weight"], [1, 0]) == own
    assert restored(["1.weight", "0.weight"], [0, 1]) != own


def test_what_every_batch_changes_is_known_by_its_count_and_by_what_was_loaded() -> None:
    old, new = Rank(), Rank()
    old.step()
    old.report()
    mean = digest(old.model[1].running_mean)
    new.chain._watch_loads(SimpleNamespace(Module=type(new.model)))
    try:
        new.model.load_state_dict(old.model.state_dict())
    finally:
        type(new.model).load_state_dict = torch.nn.Module.load_state_dict
    new.step()
    (begun,) = new.begun
    assert begun["loaded"]["0.1.running_mean"] == mean != begun["state"]["tensors"]["0.1.running_mean"]
    assert old.handed[0]["state"]["counters"]["0.1.num_batches_tracked"] == 1
    assert begun["state"]["counters"]["0.1.num_batches_tracked"] == 2


def test_a_mean_of_the_weights_has_its_count_beside_the_models() -> None:
    rank = Rank()
    mean = AveragedModel(rank.model)
    rank.step()
    for _ in range(3):
        mean.update_parameters(rank.model)
    rank.report()
    counts = rank.handed[0]["state"]["counters"]
    assert [n for key, n in counts.items() if key.startswith("aside ") and key.endswith(".n_averaged")] == [3]


def test_what_pytorch_does_not_count_as_written_is_seen_all_the_same() -> None:
    """BatchNorm's means, and a frozen part that the script moves by `.data`."""
    rank = Rank(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)))
    rank.model[2].requires_grad_(False)
    rank.adam = torch.optim.Adam(p for p in rank.model.parameters() if p.requires_grad)
    for _ in range(2):
        rank.step()
        rank.model[2].weight.data.mul_(0.9)
        rank.report()
    first, second = (handed["state"]["tensors"] for handed in rank.handed)
    assert [k for k in ("0.1.running_mean", "0.1.running_var", "0.2.weight") if first[k] == second[k]] == []


def test_an_optimizer_that_is_new_after_the_first_report_is_looked_at_too() -> None:
    rank = Rank()
    rank.step()
    rank.report()
    rank.adam = torch.optim.Adam(rank.model.parameters())  # the old one is gone
    rank.step()
    rank.report()
    first, second = (handed["state"] for handed in rank.handed)
    assert first["order"] == second["order"] == [["0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias"]]
    assert first["tensors"]["0.0.weight"] != second["tensors"]["0.0.weight"]


def test_modules_that_no_optimizer_trains_stand_aside() -> None:
    """A mean of the weights beside the model, and a frozen part; not a copy that is gone."""
    rank = Rank()
    mean, frozen, gone = copy.deepcopy(rank.model), torch.nn.Linear(2, 2), torch.nn.Linear(7, 1)
    rank.step()
    with torch.no_grad():
        mean[0].weight.mul_(0.5)
    lost = digest(gone.weight)
    del gone
    rank.report()
    (begun,), (handed,) = rank.begun, rank.handed
    before, after = ({*said["state"]["aside"].values()} for said in (begun, handed))
    assert digest(mean[0].weight) in after - before
    assert digest(frozen.weight) in after & before
    assert lost in before - after
    assert not {*handed["state"]["tensors"].values()} & {digest(frozen.weight), digest(mean[0].weight)}


def test_steps_that_go_on_from_each_other_are_one_beginning() -> None:
    rank = Rank()
    for _ in range(5):
        rank.step()
    rank.report()
    rank.step()
    assert len(rank.begun) == 1
    assert rank.chain.steps == 6


def test_what_is_loaded_after_steps_to_warm_up_is_another_beginning() -> None:
    rank = Rank()
    rank.step()
    rank.step()
    with torch.no_grad():
        rank.model[0].weight.fill_(1.0)
    rank.step()
    first, second = rank.begun
    assert (first["steps"], second["steps"]) == (0, 2)
    assert second["state"]["tensors"]["0.0.weight"] == digest(torch.ones(3, 4))


@pytest.mark.parametrize("by_hand", [lambda w: w.data.fill_(2.0), lambda w: w.detach().fill_(2.0)])
def test_weights_that_are_changed_before_a_report_are_not_what_the_last_step_left(
    by_hand: Callable[[torch.Tensor], Any],
) -> None:
    rank = Rank()
    rank.step()
    by_hand(rank.model[0].weight)
    rank.report()
    assert rank.handed[0]["changed"] == [0]


def test_beyond_its_time_a_change_is_seen_by_pytorchs_own_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FREE_SECONDS", -1.0)
    rank = Rank()
    for _ in range(3):
        rank.step()
    assert len(rank.begun) == 1
    with torch.no_grad():
        rank.model[0].weight.add_(1.0)
    rank.step()
    assert len(rank.begun) == 2


def test_only_so_many_beginnings_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BEGINNINGS", 3)
    rank = Rank()
    for value in range(6):
        with torch.no_grad():
            rank.model[0].weight.fill_(value)
        rank.step()
    assert len(rank.begun) == 3


def test_after_the_first_report_behind_a_step_nothing_is_looked_for_any_more() -> None:
    rank = Rank()
    rank.report()  # an evaluation before the first step
    rank.step()
    rank.report()
    with torch.no_grad():
        rank.model[0].weight.fill_(1.0)
    rank.step()
    assert len(rank.begun) == 1
    assert [fields["report"] for fields in rank.handed] == [2]


def test_a_step_without_gradients_is_none_of_a_training() -> None:
    rank = Rank()
    rank.chain.before_step(rank.adam, (), {})
    rank.adam.step()
    rank.chain.after_step(rank.adam, (), {})
    assert (rank.chain.steps, rank.chain.empty) == (0, 1)
    assert rank.begun[0]["gradients"] is False


def test_a_learning_rate_of_zero_is_one_all_the_same_but_not_with_gradients_of_zero() -> None:
    rank = Rank(lr=0.0)
    rank.step()
    assert (rank.chain.steps, rank.numbers) == (1, [1])
    for parameter in rank.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    rank.step(closure=lambda: 0.0)  # as a framework makes one to create an optimizer's state
    assert (rank.chain.steps, rank.chain.empty) == (1, 1)


def test_gradients_may_come_in_the_step_itself() -> None:
    rank = Rank()

    def closure() -> torch.Tensor:
        loss: torch.Tensor = rank.model(torch.ones(4, 4)).sum()
        loss.backward()
        return loss

    rank.step(closure=closure)
    assert rank.begun[0]["gradients"] is True
    assert rank.chain.steps == 1


def test_a_second_optimizer_begins_before_its_own_first_step() -> None:
    rank = Rank()
    head = torch.nn.Linear(2, 1)
    other = torch.optim.SGD(head.parameters(), lr=0.1)
    rank.step()
    head(torch.ones(1, 2)).sum().backward()
    rank.step(other, closure=lambda: 0.0)
    first, second = rank.begun
    assert (first["optimizer"], second["optimizer"]) == (0, 1)
    assert second["state"]["order"][1] == ["1.weight", "1.bias"]


def test_another_optimizer_for_each_epoch_takes_the_number_of_the_one_that_is_gone() -> None:
    rank = Rank()
    rank.step()
    rank.adam = torch.optim.Adam(rank.model.parameters())
    rank.step()
    rank.report()
    assert len(rank.handed[0]["state"]["order"]) == 1


def test_parameters_of_no_module_have_their_place_in_their_optimizer() -> None:
    rank, weight = Rank(), torch.zeros(3, requires_grad=True)
    sgd = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    rank.step(sgd, closure=lambda: 0.0)
    assert rank.begun[0]["state"]["tensors"] == {"optimizer 0.0": digest(torch.zeros(3))}


def test_a_frozen_part_and_a_wrapper_are_of_the_same_state() -> None:
    body = torch.nn.Linear(4, 4).requires_grad_(False)
    model = torch.nn.Sequential(body, torch.nn.Linear(4, 3))
    rank = Rank(model)
    rank.adam = torch.optim.Adam(model[1].parameters())
    rank.step()
    wrapped = Rank(copy.deepcopy(model))
    wrapped.adam = torch.optim.Adam(wrapped.model[1].parameters())
    wrapper = torch.nn.Module()
    wrapper.module = wrapped.model  # as DDP has it
    wrapped.step()
    keys = [rank.begun[0]["state"]["tensors"].keys() for rank in (rank, wrapped)]
    assert keys[0] == keys[1] == {"0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias"}


def test_a_rank_that_hands_nothing_over_looks_as_often_as_it_has_time() -> None:
    rank = Rank()
    rank.step()
    rank.report(checkpoint=False)
    rank.report(checkpoint=False)
    assert [fields["report"] for fields in rank.handed] == [1]
    rank.now += 100.0
    rank.report(checkpoint=False)
    rank.report()
    assert [(f["report"], f["handed"]) for f in rank.handed] == [(1, False), (3, False), (4, True)]


def test_a_model_of_more_tensors_than_a_ledger_should_hold_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("raylab_ledger.state.MOST_TENSORS", 3)
    rank = Rank()
    rank.step()
    assert rank.begun[0]["state"] == {"why": "it has more than 3 tensors"}


def test_a_training_without_steps_has_no_state() -> None:
    rank = Rank()
    rank.report()
    assert rank.events == []


# Boosted trees


class Model:
    """As a model of XGBoost, with so many trees."""

    def __init__(self, trees: int) -> None:
        self.trees = trees

    def get_dump(self, dump_format: str) -> list[str]:
        return [f"tree {n}" for n in range(self.trees)]

    def num_boosted_rounds(self) -> int:
        return self.trees


def begin(rank: Rank, model: Model, planned: int | None = None) -> None:
    rank.chain._booster_begins(Booster(weakref.ref(model), False, planned))


def test_a_model_of_trees_begins_with_those_that_were_handed_over() -> None:
    old, new = Rank(), Rank()
    model = Model(0)
    begin(old, model, 100)
    assert old.begun[0]["state"]["tensors"] == {"trees": NO_TREES}
    assert (old.begun[0]["rounds"], old.begun[0]["planned"]) == (0, 100)
    model.trees = 20
    old.report()
    loaded = Model(20)
    begin(new, loaded)
    assert new.begun[0]["state"]["tensors"] == old.handed[0]["state"]["tensors"]
    assert new.chain.rounds == 20


def test_a_training_round_by_round_is_one_beginning_and_a_helper_another() -> None:
    rank = Rank()
    first, second, real = Model(3), Model(3), Model(0)
    begin(rank, first)
    begin(rank, second)  # the next round's model begins with the trees of the last one
    assert len(rank.begun) == 1
    begin(rank, real)
    assert [fields["rounds"] for fields in rank.begun] == [3, 0]
