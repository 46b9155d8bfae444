"""The chain of states of one rank: what it trains on from, and what it hands over with each report.

A training goes on from a checkpoint if its state right before a step is the one that was handed over with
that checkpoint, and from there to its next report nothing but steps has changed it. So a rank records

- `state_begun`: the state before the first step of each optimizer in an attempt, and before every later one
  that does not begin with what the step before it has left: something was loaded, or changed by hand;
- `state_handed`: the state at a `ray.train.report`, and whether it is what the last step has left.

The first kind is looked for until the first report of the attempt that came after a step. From then on a
step costs nothing but its count. Two models of boosted trees are compared in the same way: by their trees,
round by round.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

from raylab_compat.around import around
from raylab_compat.import_hooks import after_import
from raylab_ledger.boosters import Booster, Boosters
from raylab_ledger.state import LiveState, State, parameters_of
from raylab_ledger.tensors import digest, local

Record = Callable[..., None]

FREE_SECONDS, SHARE = 0.1, 0.02
"""Digests of steps until an attempt's first report may take so long, and from then on this share of the time.
Beyond that a change is seen by the versions that PyTorch counts of each tensor."""

MOST_BEGINNINGS = 16
"""Most states that are recorded before an attempt's first report: a script may change its weights before
each step."""


class Chain:
    """Follows what trains in this process, from `watch` on."""

    def __init__(
        self,
        record: Record,
        on_step: Callable[[int], object] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`on_step` is called with the number of every step, if the optimizer counts its steps."""
        self.steps: int | None = None
        """Steps of optimizers that had a gradient; None where PyTorch did not train."""
        self.empty = 0
        """Steps for which no parameter had a gradient."""
        self._record, self._on_step, self._clock = record, on_step, clock
        self._live = LiveState(clock)
        self._open = True  # until the first report after a step
        self._began, self._beginnings, self._reports = 0.0, 0, 0
        self._left: dict[int, tuple[list[str] | None, list[int]]] = {}
        """Of each optimizer, after its last step."""
        self._begun: dict[int, tuple[State, dict[str, str]]] = {}
        """To be recorded after the step."""
        self._loaded: dict[int, tuple[weakref.ref[Any], str]] = {}
        """Id of a tensor -> what was loaded into it."""
        self._idle_at, self._idle_seconds = clock(), 0.0
        self._booster: Booster | None = None

    def watch(self) -> None:
        """Follow, once the script has imported PyTorch, XGBoost or LightGBM."""
        changes = Boosters(self._booster_begins).changes()
        after_import(
            {**changes, "torch.nn.modules.module": self._watch_loads, "torch.optim.optimizer": self._watch}
        )

    def _watch(self, module: ModuleType) -> None:
        self.steps = 0
        module.register_optimizer_step_pre_hook(self.before_step)
        module.register_optimizer_step_post_hook(self.after_step)

    def _watch_loads(self, module: Any) -> None:
        def load(method: Callable[..., Any], this: Any, *args: Any, **kwargs: Any) -> Any:
            result = method(this, *args, **kwargs)
            if self._open:
                with suppress(Exception):  # the training comes first
                    for tensor in (*this.parameters(), *this.buffers()):
                        self._loaded[id(tensor)] = weakref.ref(tensor), digest(tensor)
            return result

        around(module.Module, "load_state_dict", load)

    # Steps

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Look whether a step begins with what the one before it has left."""
        if not self._open:
            return
        with suppress(Exception):
            number = self._live.number_of(optimizer)
            if number < 0 or self._goes_on(optimizer, number):
                return
            self._beginnings += 1
            if self._beginnings <= MOST_BEGINNINGS:
                state = self._live.look(begins=True)
                self._begun[number] = state, self._as_loaded(state)

    def _goes_on(self, optimizer: Any, number: int) -> bool:
        """Tell whether its parameters are those that its last step has left; False before its first step."""
        if number not in self._left:
            return False
        digests, versions = self._left[number]
        if digests is not None:
            return digests == self._live.parameters(optimizer)
        return versions == versions_of(optimizer)

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count a step, and keep what it has left. It may have computed its gradients itself."""
        counts = has_gradients(optimizer)
        self.steps = (self.steps or 0) + counts
        self.empty += not counts
        number = self._live.number_of(optimizer)  # it may be a new one, as for each epoch
        if self._open:
            with suppress(Exception):
                self._leave(optimizer, number, counts)
        if self._on_step is not None and counts:
            with suppress(Exception):  # the optimizer counts its own steps, if at all
                self._on_step(int(next(iter(optimizer.state.values()))["step"]))

    def _leave(self, optimizer: Any, number: int, counts: bool) -> None:
        if number in self._begun:
            state, loaded = self._begun.pop(number)
            before = (self.steps or 0) - counts
            self._record(
                "state_begun", optimizer=number, steps=before, gradients=counts, state=state, loaded=loaded
            )
        self._began = self._began or self._clock()
        spent = max(0.0, self._live.seconds - FREE_SECONDS)
        digests = self._live.parameters(optimizer) if spent <= SHARE * (self._clock() - self._began) else None
        self._left[number] = digests, versions_of(optimizer)

    def _as_loaded(self, state: State) -> dict[str, str]:
        """Return key -> what was loaded into a tensor that is something else by now."""
        tensors, loaded = state.get("tensors", {}), {}
        for key, tensor in self._live.tensors():
            known = self._loaded.get(id(tensor))
            if known is not None and known[0]() is tensor and known[1] != tensors.get(key):
                loaded[key] = known[1]
        return loaded

    def _booster_begins(self, booster: Booster) -> None:
        before, self._booster = self._booster, booster
        if not self._open:
            return
        with suppress(Exception):
            trees = booster.trees()
            if before is not None and before.trees() == trees:
                return
            self._beginnings += 1
            if self._beginnings <= MOST_BEGINNINGS:
                state = {"tensors": {TREES: trees}, "order": [[TREES]]}
                rounds, planned = booster.rounds(), booster.planned
                self._record(
                    "state_begun", optimizer=0, gradients=True, state=state, rounds=rounds, planned=planned
                )

    # Reports

    @property
    def rounds(self) -> int | None:
        """Rounds of the model of boosted trees that was trained last; None without one."""
        with suppress(Exception):
            return self._booster.rounds() if self._booster is not None else None
        return None

    def hand_over(self, metrics: Any, *, checkpoint: bool) -> int:
        """Record the state at a report; returns the number of the report in this process, from 1.

        A rank that hands over no checkpoint does not know whether another one does: it looks so often that
        it takes SHARE of the time.
        """
        self._reports += 1
        with suppress(Exception):
            trained = bool(self.steps or self.empty) or self._booster is not None
            has_time = self._idle_seconds <= SHARE * (self._clock() - self._idle_at)
            if trained and (checkpoint or self._open or has_time):
                began = self._live.seconds
                state = self._live.look() if self.steps or self.empty else {"tensors": {}, "order": []}
                if self._booster is not None:
                    state["tensors"][TREES] = self._booster.trees()
                    state["order"].append([TREES])
                there = self._live.optimizers() if self._open and self.steps else []
                changed = [number for number, optimizer in there if not self._goes_on(optimizer, number)]
                seconds = self._live.seconds - began
                self._idle_at, self._idle_seconds = self._clock(), seconds
                self._record(
                    "state_handed", report=self._reports, handed=checkpoint, metrics=metrics, state=state,
                    changed=changed, seconds=seconds,
                )  # fmt: skip
        if self.steps or self._booster is not None:
            self._open = False
            self._left.clear()
            self._loaded.clear()
        return self._reports


TREES = "trees"
"""Key of a model of boosted trees."""


def has_gradients(optimizer: Any) -> bool:
    """Tell whether a step was one of a training: a parameter had a gradient.

    Frameworks make one to create an optimizer's state: with a learning rate of 0, and with gradients of 0.
    """
    gradients = (p.grad for p in parameters_of(optimizer) if p.grad is not None)
    rates = [group.get("lr") for group in optimizer.param_groups]
    if all(isinstance(rate, (int, float)) and rate == 0 for rate in rates):
        return any(bool(local(gradient).any()) for gradient in gradients)
    return next(gradients, None) is not None


def versions_of(optimizer: Any) -> list[int]:
    """The number of times that each parameter was written to, as PyTorch counts it."""
    return [local(parameter)._version for parameter in parameters_of(optimizer)]
