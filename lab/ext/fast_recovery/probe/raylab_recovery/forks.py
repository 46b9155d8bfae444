"""Tells the fork server what a rank has imported: RAY_TRAIN_CALLBACKS=...,raylab_recovery.forks.Learn

After the first report of rank 0 all that a training imports is imported, lazy imports of its first step too.
The names go into the file that RAYLAB_FORK_LEARNT names; a fork server reads it when it starts. Nothing of
this may break a training, and it changes nothing in it.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import Any

from ray.train.v2._internal.execution.callback import WorkerCallback
from raylab_forks import LEARNT

from forkserver import modules
from raylab_switches import active


class Learn(WorkerCallback):
    """Looks once, after the first report of rank 0."""

    def after_init_train_context(self) -> None:
        from ray.train.v2._internal.execution.context import get_train_context
        from ray.train.v2._internal.execution.train_fn_utils import DistributedTrainFnUtils

        path = os.environ.get(LEARNT, "")
        if not path or not active("forks") or get_train_context().get_world_rank() != 0:
            return
        report = DistributedTrainFnUtils.report
        looked = threading.Event()

        @functools.wraps(report)
        def watched(self: Any, *args: Any, **kwargs: Any) -> None:
            report(self, *args, **kwargs)
            if not looked.is_set():
                looked.set()
                threading.Thread(target=learn, args=(path,), name="raylab-learn", daemon=True).start()

        DistributedTrainFnUtils.report = watched


def learn(path: str) -> None:
    """Add the names of this process's modules to the file."""
    try:
        modules.remember(path, modules.imported(sys.modules))
    except OSError as error:
        print(f"raylab: what this rank has imported is not remembered: {error}", flush=True)
