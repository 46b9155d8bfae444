"""The model of boosted trees that a rank trains: of XGBoost and of LightGBM, round by round."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from raylab_compat.around import around
from raylab_ledger.tensors import digest_of_bytes

NO_TREES = "none"
"""Digest of a model without trees."""


@dataclass(frozen=True)
class Booster:
    """A model in training. What is written down of its trees says of each of them what it says in memory."""

    model: weakref.ref[Any]
    lightgbm: bool
    planned: int | None
    """Rounds that its training is to add; None where that is not known."""

    def rounds(self) -> int | None:
        """Number of rounds so far, those that were loaded among them; None once it is gone."""
        if (model := self.model()) is None:
            return None
        return int(model.current_iteration() if self.lightgbm else model.num_boosted_rounds())

    def trees(self) -> str:
        """Digest of all trees; empty once the model is gone."""
        if (model := self.model()) is None:
            return ""
        if self.lightgbm:
            text = model.model_to_string()
            begin, end = text.find("\nTree=0\n"), text.rfind("\nend of trees")
            trees = text[begin:end] if begin >= 0 else ""
        else:
            trees = "\n".join(model.get_dump(dump_format="json"))
        return digest_of_bytes(trees.encode()) if trees else NO_TREES


class Boosters:
    """Calls `begin` right before the first round that a model is trained in this process."""

    def __init__(self, begin: Callable[[Booster], None]) -> None:
        self._begin = begin
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()
        self._planned: int | None = None

    def changes(self) -> dict[str, Callable[[ModuleType], None]]:
        """Module -> what is to be changed in it."""
        return {
            "xgboost.core": lambda module: self._watch(module.Booster, lightgbm=False),
            "lightgbm.basic": lambda module: self._watch(module.Booster, lightgbm=True),
            "xgboost": self._watch_plan,
            "lightgbm": self._watch_plan,
        }

    def _watch(self, booster: Any, *, lightgbm: bool) -> None:
        def update(method: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
            if model not in self._begun:
                self._begun.add(model)
                self._begin(Booster(weakref.ref(model), lightgbm, self._planned))
            return method(model, *args, **kwargs)

        around(booster, "update", update)

    def _watch_plan(self, module: Any) -> None:
        """Let `train` tell how many rounds it is to add; a training round by round has no plan."""
        parameters = inspect.signature(module.train)

        def train(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            with suppress(TypeError, ValueError, KeyError):  # as it will say itself
                planned = parameters.bind(*args, **kwargs)
                planned.apply_defaults()
                self._planned = int(planned.arguments["num_boost_round"])
            try:
                return method(*args, **kwargs)
            finally:
                self._planned = None

        around(module, "train", train)
