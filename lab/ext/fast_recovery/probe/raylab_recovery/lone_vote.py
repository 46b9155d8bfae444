"""A rank with torchft that is its whole replica group votes alone: RAY_TRAIN_CALLBACKS=...,lone_vote.LoneVote

After each step a rank of `torchft.Manager` asks the manager of its group whether the step counts: it
counts if all ranks of the group say so. Ray Train makes each rank a group of its own, so the answer is
always what the rank has said itself, a message and an answer later. Here such a rank does not ask. A sum
of gradients that is there already is not watched by a timer.

The lighthouse is asked before each step, as ever. One answer for several steps would spare more, but two
ranks that it had each left alone were seen to go on with different weights (docs/survivors.md).
The names used here are torchft's own (torchft-nightly 2026.10).
"""

from __future__ import annotations

import functools
from typing import Any

from ray.train.v2._internal.execution.callback import WorkerCallback

from raylab_compat.import_hooks import after_import
from raylab_ledger.rank import quietly
from raylab_ledger.train import has_groups
from raylab_switches import active


class LoneVote(WorkerCallback):
    """Changes how replica groups vote; other trainings stay as they are."""

    @quietly
    def after_init_train_context(self) -> None:
        from ray.train.v2._internal.execution import context

        config = context.get_train_context().train_run_context.backend_config
        if active("lone_vote") and has_groups(config):
            after_import({"torchft.manager": lambda module: vote_alone(module.Manager)})


class Client:
    """torchft's client of the manager of a replica group with one rank."""

    def __init__(self, client: Any) -> None:
        self._raylab_client = client

    def should_commit(self, group_rank: int, step: int, should_commit: bool, timeout: Any) -> bool:
        """Return this rank's own vote: there is no other in its group."""
        return should_commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raylab_client, name)


def vote_alone(manager: Any) -> None:
    """Let managers of this class vote alone where they are alone; once is enough."""
    if hasattr(manager.wrap_future, "raylab"):
        return
    init, wrap_future = manager.__init__, manager.wrap_future

    @functools.wraps(init)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if self._group_world_size == 1:
            self._client = Client(self._client)

    @functools.wraps(wrap_future)
    def wrapped(self: Any, fut: Any, *args: Any, **kwargs: Any) -> Any:
        return fut if is_there(fut) else wrap_future(self, fut, *args, **kwargs)

    wrapped.raylab = True  # type: ignore[attr-defined]
    manager.__init__, manager.wrap_future = made, wrapped


def is_there(fut: Any) -> bool:
    """Tell whether a future has its value, without an error, in the memory of the CPU."""
    import torch

    if torch.accelerator.is_available() or not fut.done():
        return False
    try:
        fut.value()
    except Exception:  # whatever it is, torchft takes it up
        return False
    return True
