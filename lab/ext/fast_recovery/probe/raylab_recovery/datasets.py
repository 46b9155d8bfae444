"""No process for data sets that there are none of: RAY_TRAIN_CALLBACKS=...,raylab_recovery.datasets.Datasets

For each attempt Ray Train (2.60) starts an actor that hands out the shards of `Trainer(datasets=...)`, also
where a trainer has none: one process more to start while the ranks take their first step. Here an attempt
without data sets has no such actor. `get_dataset_shard` raises the same KeyError as before. The class used
here is internal to Ray.
"""

from __future__ import annotations

import functools
from typing import Any

from ray.train.v2._internal.execution.callback import ControllerCallback

from raylab_ledger.rank import quietly
from raylab_switches import active


class Datasets(ControllerCallback):
    """Changes what the controller of a run starts for its data sets; nothing else."""

    @quietly
    def after_controller_start(self, train_run_context: Any) -> None:
        if not active("datasets"):
            return
        from ray.train.v2._internal.callbacks.datasets import RayDatasetShardProvider

        spare(RayDatasetShardProvider)


def spare(provider_class: Any) -> None:
    """Let providers of this class without data sets start no actor; once is enough."""
    begin = provider_class.__init__
    if hasattr(begin, "raylab"):
        return

    @functools.wraps(begin)
    def begin_with(self: Any, datasets: Any, *args: Any, **kwargs: Any) -> None:
        if datasets:
            begin(self, datasets, *args, **kwargs)
            return
        self._dataset_names, self._cached_dataset_shards = set(), {}
        self._dataset_manager = Nobody()

    begin_with.raylab = True  # type: ignore[attr-defined]
    provider_class.__init__ = begin_with


class Nobody:
    """Stands where the handle of the actor would be; the end of an attempt tells it to stop."""

    class _Method:
        def remote(self) -> None:
            """No-op."""

    shutdown_data_executors = _Method()
