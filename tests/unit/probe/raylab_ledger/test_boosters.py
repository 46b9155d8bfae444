"""Which model of boosted trees a rank trains, and with how many rounds it is to end."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from raylab_ledger.boosters import NO_TREES, Booster, Boosters


class Model:
    """A model as LightGBM's: `update` adds a tree to those that it was made with."""

    def __init__(self, trees: int = 0) -> None:
        self.trees = trees

    def model_to_string(self) -> str:
        trees = "".join(f"Tree={n}\nleaf_value={n}.5 2\n\n" for n in range(self.trees))
        return f"tree\nversion=v4\ntree_sizes={self.trees}\n\n{trees}end of trees\n\nparameters:\n"

    def current_iteration(self) -> int:
        return self.trees

    def update(self) -> bool:
        self.trees += 1
        return False


class Library:
    """A library of boosted trees that is watched."""

    def __init__(self) -> None:
        self.begun: list[Booster] = []
        self.trees: list[str] = []
        self.booster: Any = type("Booster", (Model,), {})
        boosters = Boosters(self.begin)
        boosters._watch(self.booster, lightgbm=True)
        self.module: Any = SimpleNamespace(train=self.train)
        boosters._watch_plan(self.module)

    def begin(self, booster: Booster) -> None:
        self.begun.append(booster)
        self.trees.append(booster.trees())

    def train(self, params: Any, data: Any, num_boost_round: int = 100, init: int = 0) -> Any:
        model = self.booster(init)
        for _ in range(num_boost_round):
            model.update()
        return model


def test_a_model_begins_once_with_the_trees_that_it_was_made_with() -> None:
    library = Library()
    model = library.module.train({}, None, num_boost_round=3, init=20)
    assert len(library.begun) == 1
    assert library.begun[0].planned == 3
    assert library.begun[0].rounds() == model.current_iteration() == 23
    assert library.trees == [trees_of(begun := Model(20))], begun


def trees_of(model: Model) -> str:
    return Booster(weakref.ref(model), True, None).trees()


def test_a_model_without_trees_says_so() -> None:
    one, two = Model(1), Model(2)
    assert len({NO_TREES, trees_of(one), trees_of(two)}) == 3
    assert trees_of(empty := Model()) == NO_TREES, empty


def test_a_model_that_is_gone_tells_nothing() -> None:
    gone = Booster(weakref.ref(Model(3)), True, None)
    assert (gone.trees(), gone.rounds()) == ("", None)


def test_rounds_by_hand_have_no_plan() -> None:
    library = Library()
    library.module.train({}, None, 2)
    library.booster(5).update()
    assert [booster.planned for booster in library.begun] == [2, None]


def test_a_call_that_is_wrong_fails_as_it_would() -> None:
    with pytest.raises(TypeError):
        Library().module.train()
