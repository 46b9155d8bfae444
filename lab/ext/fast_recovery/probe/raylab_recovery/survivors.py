"""Survivors of a lost rank go on to report: RAY_TRAIN_CALLBACKS=...,raylab_recovery.survivors.Survivors

With `TorchftConfig` Ray Train (2.60) replaces the lost rank alone, and torchft lets the others train on. But
`ray.train.report` still waits for all ranks, the controller takes a report only once it has one of each, and
throws away those that wait when it replaces a rank: a survivor stands still at its next checkpoint until the
lost rank is back. Here each rank of such a training reports for itself. A checkpoint is whole as one rank
saved it, because every rank has the same state.

The lighthouse, which decides who trains, gets the lab's time-outs (lab/cluster/ray_settings.py) for those
that the script does not name, and runs beside the controller, on a head that offers no CPU. The classes used
here are internal to Ray.

A rank whose node was frozen or cut off for so long that another process took its place would go on when it
wakes up, until its node learns that it was declared dead: for a second or two there would be two of it. So a
rank that has not begun a step for a while asks Ray first.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from ray.train.v2._internal.execution.callback import ControllerCallback, WorkerCallback

from raylab_compat.import_hooks import after_import
from raylab_ledger.rank import quietly
from raylab_ledger.train import has_groups
from raylab_switches import active

TIMEOUTS = {
    "heartbeat_timeout_ms": "RAYLAB_TORCHFT_HEARTBEAT_MS",
    "join_timeout_ms": "RAYLAB_TORCHFT_JOIN_MS",
    "quorum_tick_ms": "RAYLAB_TORCHFT_TICK_MS",
}
"""Argument of torchft's lighthouse -> the lab's setting."""

ONE_THREAD = "TOKIO_WORKER_THREADS", "1"
"""Variable that torchft's runtimes heed, which have a thread for each core otherwise, and its value here. A
rank's messages are few and short: with one thread there are a quarter fewer switches between threads."""

LONG_SECONDS = 0.4
"""Time from one step to the next after which a rank asks whether it was given up. A node that was stopped is
given up after 0.5 s at the soonest (raylab_liveness.judge)."""


class Survivors(ControllerCallback, WorkerCallback):
    """Changes how reports of replica groups are taken; other trainings stay as they are."""

    @quietly
    def after_controller_start(self, train_run_context: Any) -> None:
        if not (active("survivors") and has_groups(train_run_context.backend_config)):
            return
        import ray
        from ray.train.v2._internal.execution.checkpoint.report_handler import ReportCallbackHandler
        from ray.train.v2.torch import torchft_config

        lighthouse = torchft_config.LighthouseServerActor.__ray_metadata__.modified_class
        torchft_config.LighthouseServerActor = ray.remote(num_cpus=0)(lighthouse.__ray_actor_class__)
        settle_timeouts(torchft_config._TorchftBackend, timeouts(os.environ))
        ReportCallbackHandler.after_worker_group_poll_status = take_each_report

    @quietly
    def after_init_train_context(self) -> None:
        from ray.train.v2._internal.execution import context
        from ray.train.v2._internal.execution.worker_group.worker import RayTrainWorker

        config = context.get_train_context().train_run_context.backend_config
        if active("survivors") and has_groups(config):
            os.environ.setdefault(*ONE_THREAD)
            context.TrainContext._sync_checkpoint_dir_name_across_ranks = name_alone
            RayTrainWorker.clear_result_queue = lambda self: None
            after_import({"torchft.manager": lambda module: end_if_given_up(module.Manager, node_is_alive)})


def timeouts(environ: Mapping[str, str]) -> dict[str, int]:
    """The lighthouse's time-outs in milliseconds, as far as this environment has them."""
    texts = {name: environ.get(variable, "") for name, variable in TIMEOUTS.items()}
    return {name: int(text) for name, text in texts.items() if text.isdecimal()}


def settle_timeouts(backend_class: Any, ours: Mapping[str, int]) -> None:
    """Let this backend start its lighthouse with these time-outs where the script names none."""
    create = backend_class._maybe_create_lighthouse_actor

    @functools.wraps(create)
    def _maybe_create_lighthouse_actor(self: Any, backend_config: Any) -> Any:
        backend_config.lighthouse_kwargs = {**ours, **backend_config.lighthouse_kwargs}
        return create(self, backend_config)

    backend_class._maybe_create_lighthouse_actor = _maybe_create_lighthouse_actor


def end_if_given_up(
    manager: Any, node_is_alive: Callable[[], bool], clock: Callable[[], float] = time.monotonic
) -> None:
    """Let a rank of this class of managers begin and commit no step once its node was declared dead.

    It may have been frozen between two steps or, cut off, within one.
    """

    def check(self: Any) -> float:
        now = clock()
        waited = now - getattr(self, "raylab_began", now)
        if waited > LONG_SECONDS and not node_is_alive():
            raise RuntimeError(
                f"no step for {waited:.0f} s, and its node was declared dead: another took over"
            )
        return now

    start_quorum, should_commit = manager.start_quorum, manager.should_commit

    @functools.wraps(start_quorum)
    def begins(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.raylab_began = check(self)
        return start_quorum(self, *args, **kwargs)

    @functools.wraps(should_commit)
    def commits(self: Any, *args: Any, **kwargs: Any) -> Any:
        check(self)
        return should_commit(self, *args, **kwargs)

    manager.start_quorum, manager.should_commit = begins, commits


def node_is_alive() -> bool:
    """True unless Ray has declared this process's node dead."""
    import ray

    try:
        mine = ray.get_runtime_context().get_node_id()
        return all(node["Alive"] for node in ray.nodes() if node["NodeID"] == mine)
    except Exception:  # whatever keeps Ray from an answer: the training comes first
        return True


def name_alone(self: Any, checkpoint_dir_name: str | None = None) -> str:
    """Return the name of a checkpoint's folder without asking the other ranks, in TrainContext's place."""
    return checkpoint_dir_name or str(self.storage_context.make_default_checkpoint_dir_name())


def take_each_report(self: Any, worker_group_status: Any) -> None:
    """Pass every report on as it comes, in ReportCallbackHandler's place."""
    for status in worker_group_status.worker_statuses.values():
        report = status.training_report
        if report is None:
            continue
        for callback in self._report_callbacks:
            callback.after_report(training_report=report, metrics=[report.metrics])
