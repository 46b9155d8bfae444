"""Counts the optimizer's steps of a rank: where an attempt really began, whatever its script says.

A script that reports every so many steps tells only where an attempt came by. PyTorch calls a hook after each
step of any optimizer. Steps with a learning rate of zero change nothing and are not counted: frameworks make
one to create an optimizer's state before they load it.

The number of a step is the optimizer's own, as Adam counts it: it comes from the checkpoint with the rest of
its state, so a step that is repeated has the same number again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from raylab_ledger.weights import is_idle


class Steps:
    """The number of optimizer steps in this process since `watch`; None where PyTorch did not train."""

    def __init__(self, on_step: Callable[[int], object] | None = None) -> None:
        """`on_step` is called with the number of every step, if the optimizer counts its steps."""
        self.done: int | None = None
        self._on_step = on_step

    def watch(self) -> None:
        """Count from now on, if the training function has imported PyTorch."""
        if "torch" not in sys.modules or self.done is not None:
            return
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self.done = 0
        register_optimizer_step_post_hook(self.after_step)

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Count a step that may have changed a parameter."""
        idle = is_idle(optimizer)
        self.done = (self.done or 0) + (not idle)
        if self._on_step is not None and not idle:
            with suppress(Exception):  # the training comes first
                self._on_step(number_of(optimizer))


def number_of(optimizer: Any) -> int:
    """Number of the last step by the optimizer's own state. Raises StopIteration, KeyError without one."""
    return int(next(iter(optimizer.state.values()))["step"])
