"""A small file is stored by one request: RAY_TRAIN_CALLBACKS=...,raylab_recovery.single_puts.SinglePuts

Each file that Ray Train (2.60) writes into S3, Arrow begins as an upload in parts: one request to begin it,
one with the only part, one to end it. Arrow can wait until it knows that a file is larger than a part (10
MB), and store a smaller one by a single PUT (`allow_delayed_open`). Here the controller of a run asks for
that, and its ranks get the controller's filesystem. A store that refuses a file says so when it is closed,
not when it is opened. A filesystem that a script gives Ray itself stays as it is. The function used here is
internal to Ray.
"""

from __future__ import annotations

import functools
from typing import Any

from ray.train.v2._internal.execution.callback import ControllerCallback

from raylab_ledger.recorder import filesystem_of
from raylab_switches import active


class SinglePuts(ControllerCallback):
    """Changes how a run's controller reaches the store; nothing else."""

    def __reduce__(self) -> tuple[Any, ...]:
        return in_the_controller, ()


def in_the_controller() -> SinglePuts:
    """The callback as it arrives in the controller's process, before that makes the run's filesystem."""
    if active("single_puts"):
        from ray.train.v2._internal.execution import storage

        ask_for_single_puts(storage)
    return SinglePuts()


def ask_for_single_puts(storage: Any) -> None:
    """Let `storage`, Ray's module, find such a filesystem behind a URI of S3; once is enough."""
    find = storage.get_fs_and_path
    if hasattr(find, "raylab"):
        return

    @functools.wraps(find)
    def get_fs_and_path(storage_path: Any, storage_filesystem: Any = None) -> tuple[Any, str]:
        if storage_filesystem is None and str(storage_path).startswith("s3://"):
            return filesystem_of(str(storage_path))
        resolved: tuple[Any, str] = find(storage_path, storage_filesystem)
        return resolved

    get_fs_and_path.raylab = True  # type: ignore[attr-defined]
    storage.get_fs_and_path = get_fs_and_path
