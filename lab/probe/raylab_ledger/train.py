"""The ledger's seam into Ray Train: RAY_TRAIN_CALLBACKS=raylab_ledger.train.Ledger,...

Ray Train V2 (pinned: ray 2.60) makes the callbacks named in that variable in the driver, pickles them to
its controller and from there to every worker, whatever the user's script does. This one records what happens
and leaves Ray as it is: the methods that it wraps do and return the same, and a rank waits at most
FLUSH_SECONDS for a checkpoint's SHA-256 to be stored. Only where a fault was armed in the rank
(raylab_faults.armed) does `report` carry it out. The classes used here are internal to Ray, as those of the
patches are.

docs/recovery.md lists the events, and who writes them.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import ray
from ray.train.v2._internal.execution import context as train_context
from ray.train.v2._internal.execution.callback import (
    ControllerCallback,
    ReplicaGroupCallback,
    ReportCallback,
    WorkerCallback,
    WorkerGroupCallback,
)
from raylab_steps import EACH_STEP
from raylab_steps import Steps as TakenSteps

from raylab_compat.around import around
from raylab_ledger.chain import Chain
from raylab_ledger.rank import quietly, watch_start, watch_worker
from raylab_ledger.reads import uri_of
from raylab_ledger.recorder import Recorder, open_recorder, plain
from raylab_switches import in_training

PACKAGES = ("ray", "torch", "pytorch-lightning")
"""Those whose versions are recorded."""

FLUSH_SECONDS = 5.0
"""Longest wait of a rank, once per checkpoint, for its SHA-256 to be stored."""


def submission_id() -> str:
    """The job's submission id, or `interactive-<Ray job id>` for a driver that was not submitted.

    Ray's own configuration of the job has it in every process of the cluster: a run may be started in one
    that is not the entrypoint, as under Ray Tune. A driver that uses Ray's client is no such process.
    """
    from ray._private.worker import global_worker

    core = getattr(global_worker, "core_worker", None)
    submitted = core.get_job_config().metadata.get("job_submission_id") if core else None
    return str(submitted or f"interactive-{ray.get_runtime_context().get_job_id()}")


class Ledger(ControllerCallback, WorkerGroupCallback, ReplicaGroupCallback, ReportCallback, WorkerCallback):
    """Records a run's attempts, checkpoints and reports. One copy per process; only plain data travel."""

    def __init__(self) -> None:
        self.job = submission_id()
        self.trial = trial_of_tune()
        if self.trial:
            watch_stop(self.trial, self.job)
        self.run = ""
        self.run_id = ""
        self.attempt = 0
        self._ranks = 0  # of the attempt that trains
        self._taken_up: dict[str, Any] = {}  # of that attempt: number of reports, metrics of the last one
        self._recorder: Recorder | None = None
        self._taken: TakenSteps | None = None  # where every step is recorded

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_recorder": None}

    def _record(self, event: str, **fields: Any) -> None:
        if self._recorder is not None:
            self._recorder.record(event, run=self.run, run_id=self.run_id, attempt=self.attempt, **fields)

    def _flush(self) -> None:
        if self._recorder is not None:
            self._recorder.flush(FLUSH_SECONDS)

    # In the controller

    @quietly
    def after_controller_start(self, train_run_context: Any) -> None:
        run = train_run_context.run_config
        scaling, kept = train_run_context.scaling_config, run.checkpoint_config
        self.run, self.run_id = str(run.name), str(train_run_context.run_id)
        self._recorder = open_recorder(self.job, "controller", {"pid": os.getpid()})
        self._record(
            "run_started",
            node_id=ray.get_runtime_context().get_node_id(),
            storage_path=str(run.storage_path),
            num_workers=scaling.num_workers,
            trial=self.trial,
            replica_groups=has_groups(getattr(train_run_context, "backend_config", None)),
            resources_per_worker=dict(scaling._resources_per_worker_not_none),
            max_failures=run.failure_config.max_failures if run.failure_config else 0,
            num_to_keep=kept.num_to_keep if kept else None,
            checkpoint_score_attribute=kept.checkpoint_score_attribute if kept else None,
            config=plain(train_run_context.train_loop_config or {}),
            environment=environment(),
            patches=in_training(os.environ, sys.modules),
        )

    @quietly
    def before_worker_group_start(self, worker_group_context: Any) -> None:
        self.attempt, self._taken_up = self.attempt + 1, {"reports": 0}
        self._record("attempt_scheduled", num_workers=worker_group_context.num_workers)

    @quietly
    def after_worker_group_start(self, worker_group: Any) -> None:
        self._ranks = len(worker_group.get_workers())
        self._record("attempt_started", workers=workers_of(worker_group))

    @quietly
    def before_replica_group_shutdown(self, replica_group: Any) -> None:
        self._record("rank_given_up", workers=workers_of(replica_group))

    @quietly
    def after_replica_group_start(self, replica_group: Any) -> None:
        self._record("rank_replaced", workers=workers_of(replica_group))

    @quietly
    def after_worker_group_training_start(self, worker_group: Any) -> None:
        self._record("training_started")

    @quietly
    def after_report(self, training_report: Any, metrics: Any) -> None:
        metrics = plain(training_report.metrics)
        self._taken_up = {"reports": self._taken_up.get("reports", 0) + 1, "metrics": metrics}
        if training_report.checkpoint is not None:
            self._record("checkpoint_committed", uri=uri_of(training_report.checkpoint), metrics=metrics)

    @quietly
    def before_controller_execute_resize_decision(self, resize_decision: Any) -> None:
        if self._ranks:  # Ray calls every start of an attempt a resize
            self._record("resized", ranks=self._ranks, to=resize_decision.num_workers)

    @quietly
    def before_controller_execute_failure_decision(self, failure_decision: Any) -> None:
        self._ranks = 0
        self._record("failure_detected", decision=failure_decision.name, **self._taken_up)

    @quietly
    def before_worker_group_shutdown(self, worker_group: Any) -> None:
        self._ranks = 0
        self._record("attempt_ended", **self._taken_up)

    @quietly
    def before_worker_group_abort(self, worker_group_context: Any) -> None:
        self._record("attempt_ended", aborted=True, **self._taken_up)

    @quietly
    def after_controller_finish(self, result: Any) -> None:
        self._record("run_finished", error=repr(result.error)[:500] if result.error else None)
        self._flush()

    # In every worker

    @quietly
    def after_init_train_context(self) -> None:
        context = train_context.get_train_context()
        runtime = ray.get_runtime_context()
        common = {"rank": context.get_world_rank(), "node_id": runtime.get_node_id(), "pid": os.getpid()}
        self._recorder = open_recorder(self.job, f"rank{common['rank']}", common)
        if self._recorder is not None:
            chain = Chain(self._record)
            config = getattr(context.train_run_context, "backend_config", None)
            if os.environ.get(EACH_STEP) and not has_groups(config):  # torchft's are recorded anyway
                taken, ranks = TakenSteps(self._record), context.get_world_size()
                self._taken = taken
                chain = Chain(self._record, lambda step: taken.committed(step, ranks))
            watch_worker(self._record, self._flush, chain)
            watch_start(context.execution_context.training_thread_runner, self._record, self._taken)
            self._record("rank_ready", launched_at=launched_at())

    @quietly
    def before_worker_shutdown(self) -> None:
        if self._taken is not None:
            self._taken.flush()
        self._flush()


def trial_of_tune() -> str:
    """Id of the trial of Ray Tune that this process runs; empty outside of Tune."""
    if "ray.tune" not in sys.modules:
        return ""
    from ray.tune.trainable.trainable_fn_utils import _in_tune_session

    return str(sys.modules["ray.tune"].get_context().get_trial_id()) if _in_tune_session() else ""


def watch_stop(trial: str, job: str) -> None:
    """Record that Tune ends the trial of this process: its training is killed, and says nothing more
    itself."""
    from ray.tune.trainable.function_trainable import FunctionTrainable

    def cleanup(method: Callable[..., Any], trainable: Any) -> None:
        recorder = open_recorder(job, "trial", {"pid": os.getpid()})
        if recorder is not None:
            recorder.record("trial_stopped", trial=trial)
            recorder.flush(FLUSH_SECONDS)
        method(trainable)

    around(FunctionTrainable, "cleanup", cleanup)


def has_groups(backend_config: Any) -> bool:
    """Tell whether the ranks of a training are replica groups, each of which is replaced alone."""
    return bool(getattr(getattr(backend_config, "backend_cls", None), "has_replica_groups", False))


def workers_of(group: Any) -> list[dict[str, Any]]:
    """Rank, node, service or pod, and process of each worker of a group."""
    workers = group.get_workers()
    services = services_of(frozenset(worker.metadata.node_id for worker in workers))
    return [
        {
            "rank": worker.distributed_context.world_rank,
            "node_id": worker.metadata.node_id,
            "service": services.get(worker.metadata.node_id),
            "pid": worker.metadata.pid,
        }
        for worker in workers
    ]


@functools.lru_cache(maxsize=8)
def services_of(nodes: frozenset[str]) -> dict[str, str]:
    """Return node id -> its name in Ray, which is the lab's service, or its host's, which is a pod; of
    these at least.

    Ray is asked: a variable of the process may be that of another node, which a script has copied.
    """
    services = {}
    for node in ray.nodes():
        name, address = node["NodeName"], node["NodeManagerAddress"]
        services[node["NodeID"]] = str(node["NodeManagerHostname"] if name == address else name)
    return services


def launched_at() -> float | None:
    """Time at which Ray began to start this process (seconds since the epoch); None where it does not say."""
    said = re.search(r"--worker-launch-time-ms[=\0](\d+)", "\0".join(sys.argv))
    return int(said[1]) / 1000 if said else None


def environment() -> dict[str, Any]:
    """Versions of Python and of PACKAGES, cores, memory in bytes; what cannot be learned is left out."""
    facts: dict[str, Any] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if cores := os.cpu_count():
        facts["cores"] = cores
    if hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(os.sysconf_names):
        facts["memory_bytes"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return facts
