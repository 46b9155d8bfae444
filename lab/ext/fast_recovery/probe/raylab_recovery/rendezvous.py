"""Process groups form without a pause: RAY_TRAIN_CALLBACKS=...,raylab_recovery.rendezvous.Rendezvous

Ray Train (2.60) lets all ranks of an attempt form torch's process group at once. Rank 0 serves the store that
they meet at; a rank that comes a few milliseconds before it listens is refused, and torch (2.13) sleeps for
0.3 to 0.8 s before its second try. Forked ranks are so close to each other that every other attempt has such
a rank. Here the other ranks first look until somebody listens there, every few milliseconds; after
PATIENCE_SECONDS they go on as without this. The names used here are internal to Ray.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ray.train.v2._internal.execution.callback import WorkerCallback

from raylab_ledger.rank import quietly
from raylab_patches import connects
from raylab_switches import active

PATIENCE_SECONDS = 10.0
"""Longest look for rank 0; torch goes on trying by itself then."""

PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.005, 0.05
"""Pause before the second try, and the limit to which it doubles."""


class Rendezvous(WorkerCallback):
    """Changes how a rank joins its process group; nothing else."""

    @quietly
    def after_init_train_context(self) -> None:
        if not active("rendezvous"):
            return
        from ray.train.v2._internal.execution.context import get_train_context

        if hasattr(get_train_context().train_run_context.backend_config, "init_method"):
            from ray.train.torch import config

            look_first(config)


def look_first(config: Any, look: Callable[[str, int], None] | None = None) -> None:
    """Let `config`, Ray's module for torch, look for rank 0 before a rank joins; once is enough."""
    join = config._setup_torch_process_group
    if hasattr(join, "raylab"):
        return
    look = look or wait_for_listener

    @functools.wraps(join)
    def _setup_torch_process_group(
        backend: str, world_rank: int, world_size: int, init_method: str, *args: Any, **kwargs: Any
    ) -> None:
        place = meeting_place(init_method, os.environ) if world_rank > 0 else None
        if place is not None:
            look(*place)
        join(backend, world_rank, world_size, init_method, *args, **kwargs)

    _setup_torch_process_group.raylab = True  # type: ignore[attr-defined]
    config._setup_torch_process_group = _setup_torch_process_group


def meeting_place(init_method: str, environ: Mapping[str, str]) -> tuple[str, int] | None:
    """Address and port of rank 0's store; None where this cannot tell, such as for a file."""
    url = urlsplit(init_method)
    try:
        if url.scheme == "env":
            return environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
        if url.scheme == "tcp" and url.hostname and url.port:
            return url.hostname, url.port
    except (KeyError, ValueError):
        pass
    return None


def wait_for_listener(
    address: str,
    port: int,
    listens: Callable[[str, int], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return when somebody listens there, or PATIENCE_SECONDS are over."""
    listens = listens or connects
    end, pause = clock() + PATIENCE_SECONDS, PAUSE_SECONDS
    while not listens(address, port) and clock() < end:
        sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
