"""Keeps processes ready for a run's next attempt: RAY_TRAIN_CALLBACKS=...,raylab_probe.standby.Standby

After a failure most of the time goes into the start of processes and into imports. Both can be done while
training goes on. Once an attempt has reported, this callback asks the raylet of each node that could take a
rank for an idle worker process in the run's runtime environment, and leaves in Ray's key-value store which
modules it is to import (`warm.py`): those of rank 0. Ray gives an idle process to the next actor that needs
the same job and environment: a rank of the next attempt. Then another one is asked for. The node of the
controller keeps one too, for the small actor that Ray Train makes beside the ranks of every attempt.

Nothing of this may break a training: what fails is printed once, and the next attempt starts as without it.
Ray itself ends the processes when the job ends. What is used here is internal to Ray (pinned: 2.60):
`NodeManagerService.PrestartWorkers` and `GetWorkerPIDs`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from ray.train.v2._internal.execution.callback import ControllerCallback, ReportCallback, WorkerGroupCallback

from raylab_probe import warm
from raylab_probe.keeper import Keeper, Recipe, imported
from raylab_probe.raylets import Claims, Raylets
from raylab_probe.train import quietly

VARIABLE = "RAYLAB_STANDBY"
"""Environment variable of the nodes: how many processes a node keeps ready at most; none without it."""

LOOK_SECONDS = 2.0
"""Pause between two looks at the nodes."""

DESCRIBE_SECONDS = 10.0
"""Deadline for a rank to say what it has imported."""

COMPANION = ("ray.train.v2._internal.execution.checkpoint.sync_actor",)
"""What the actor beside the ranks imports."""


def most() -> int:
    """How many processes a node keeps ready at most."""
    try:
        return max(0, int(os.environ.get(VARIABLE, "0")))
    except ValueError:
        return 0


def recipe(modules: Iterable[str] | None = None) -> Recipe:
    """That of the process that calls."""
    import ray

    names = imported(sys.modules) if modules is None else tuple(modules)
    environment = str(ray.get_runtime_context().get_runtime_env_string())
    return Recipe(environment, warm.argument("--runtime-env-hash", sys.argv), names)


class Standby(ControllerCallback, WorkerGroupCallback, ReportCallback):
    """Keeps processes ready for the next attempt. One copy per process; nothing travels."""

    def __init__(self) -> None:
        self._keeper: Keeper | None = None
        self._over = threading.Event()

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]

    # In the controller

    @quietly
    def after_controller_start(self, train_run_context: Any) -> None:
        import ray

        if not most():
            return
        context = ray.get_runtime_context()
        keeper = Keeper(
            Raylets(),
            Claims(),
            context.get_job_id(),
            context.get_node_id(),
            lambda: recipe(COMPANION),
            limit=most(),
        )
        self._keeper = keeper
        threading.Thread(target=self._run, args=(keeper,), name="raylab-standby", daemon=True).start()

    def _run(self, keeper: Keeper) -> None:
        while not self._over.wait(LOOK_SECONDS):
            keeper.look()

    @quietly
    def after_worker_group_training_start(self, worker_group: Any) -> None:
        if self._keeper is not None:
            workers: Sequence[Any] = worker_group.get_workers()
            first = workers[0]
            nodes = [worker.metadata.node_id for worker in workers]
            self._keeper.train(lambda: _ask(first), worker_group.get_resources_per_worker(), nodes)

    @quietly
    def after_report(self, training_report: Any, metrics: list[dict[str, Any]]) -> None:
        if self._keeper is not None:
            self._keeper.reported()

    @quietly
    def before_worker_group_shutdown(self, worker_group: Any) -> None:
        if self._keeper is not None:
            self._keeper.rest()

    @quietly
    def before_worker_group_abort(self, worker_group_context: Any) -> None:
        if self._keeper is not None:
            self._keeper.rest()

    @quietly
    def after_controller_finish(self, result: Any) -> None:
        self._over.set()
        if self._keeper is not None:
            self._keeper.end()


def _ask(worker: Any) -> Recipe:
    """The recipe of a rank's process. Raises what Ray raises, also after DESCRIBE_SECONDS."""
    import ray

    answer: Recipe = ray.get(worker.execute_async(recipe), timeout=DESCRIBE_SECONDS)
    return answer
