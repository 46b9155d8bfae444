"""The ledger's seam into Ray Train: RAY_TRAIN_CALLBACKS=raylab_ledger.train.Ledger,...

Ray Train V2 (pinned: ray 2.60) makes the callbacks named in that variable in the driver, pickles them to
its controller and from there to every worker, whatever the user's script does. This one records what happens
and leaves Ray as it is: the methods that it wraps do and return the same, and a rank waits at most
FLUSH_SECONDS for a checkpoint's SHA-256 to be stored. Only where a fault was armed in the rank
(raylab_faults.armed) does `report` carry it out. The classes used here are internal to Ray, as those of the
patches are.

Events (each with `at` in seconds since the epoch, `job`, `run`, `run_id`, `attempt`, its `stream` and its
number `n` there):

| event | written by | says |
| --- | --- | --- |
| run_started | controller | the plan: workers, resources, what is kept, train_loop_config, storage; patches |
| attempt_scheduled | controller | a new attempt is about to start, with how many ranks |
| attempt_started | controller | rank, node and process of every worker |
| training_started | controller | the training function was started on every rank |
| failure_detected | controller | Ray Train noticed a failure; its decision, and what it had taken up |
| resized | controller | an elastic run ends this attempt to go on with another number of ranks |
| attempt_ended | controller | the worker group was shut down or aborted; what it had taken up |
| checkpoint_committed | controller | Ray registered this checkpoint: from here on it would resume from it |
| checkpoint_refused | controller | a damaged checkpoint was passed over (checkpoint_guard.py) |
| run_finished | controller | error or none |
| rank_ready | rank | its process has its Train context; when Ray began to start it; its service, or pod |
| function_started | rank | the training function begins, its imports are done |
| get_checkpoint | rank | the script asked for a checkpoint, which one it was given |
| checkpoint_loaded | rank | files were read from it: their SHA-256, the tensors in them (weights.py) |
| weights | rank | the parameters right before the first step of an optimizer |
| checkpoint_saved | rank | files were uploaded, with the SHA-256 they had before the upload |
| report | rank | `ray.train.report` returned: metrics, the checkpoint's URI if any, the optimizer's steps |
| steps | rank | with torchft, or where the job asks: steps, and how many ranks took part (survivors.py) |
| step_discarded | rank | a step that did not count, and why |
| healed | rank | it was given the state of a neighbour |
| state_given | keeper | the state of a step that it kept in memory, as it gave it back (memory.py) |
| state | rank | SHA-256 of weights and optimizer after a step |
| rank_given_up | controller | a lost rank of such a training is to be replaced; the others train on |
| rank_replaced | controller | rank, node and process of the new one |
| fit_ended | rank | a fit of Lightning, Keras or XGBoost returned, and whether it stopped early (early.py) |
| fault_armed | rank | it was told to fail on purpose at an epoch (armed.py) |
| fault_fired | rank | it did so: the epoch, and for NaN the parameter |
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
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

from raylab_ledger.rank import quietly, uri_of, watch_start, watch_worker
from raylab_ledger.recorder import Recorder, open_recorder, plain
from raylab_ledger.steps import Steps
from raylab_ledger.survivors import EACH_STEP
from raylab_ledger.survivors import Steps as TakenSteps
from raylab_ledger.versions import environment
from raylab_switches import in_training

SERVICE_VARIABLE = "RAYLAB_SERVICE_NAME"
"""Environment variable of a node with the name of its service; on Kubernetes that of its pod."""

FLUSH_SECONDS = 2.0
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
            self._record(
                "checkpoint_committed",
                uri=uri_of(training_report.checkpoint),
                metrics=metrics,
            )

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
            steps = Steps()
            config = getattr(context.train_run_context, "backend_config", None)
            if os.environ.get(EACH_STEP) and not has_groups(config):  # torchft's are recorded anyway
                taken, ranks = TakenSteps(self._record), context.get_world_size()
                self._taken = taken
                steps = Steps(lambda step: taken.committed(step, ranks))
            watch_worker(self._record, self._flush, steps)
            runner = context.execution_context.training_thread_runner
            watch_start(runner, self._record, steps, self._taken)
            service = os.environ.get(SERVICE_VARIABLE)
            self._record("rank_ready", launched_at=launched_at(), service=service)

    @quietly
    def before_worker_shutdown(self) -> None:
        if self._taken is not None:
            self._taken.flush()
        self._flush()


def has_groups(backend_config: Any) -> bool:
    """Tell whether the ranks of a training are replica groups, each of which is replaced alone."""
    return bool(getattr(getattr(backend_config, "backend_cls", None), "has_replica_groups", False))


def workers_of(group: Any) -> list[dict[str, Any]]:
    """Rank, node and process of each worker of a group."""
    return [
        {
            "rank": worker.distributed_context.world_rank,
            "node_id": worker.metadata.node_id,
            "pid": worker.metadata.pid,
        }
        for worker in group.get_workers()
    ]


def launched_at() -> float | None:
    """Time at which Ray began to start this process (seconds since the epoch); None where it does not say."""
    milliseconds = argument("--worker-launch-time-ms", sys.argv)
    return int(milliseconds) / 1000 if milliseconds.isdigit() else None


def argument(name: str, argv: Sequence[str]) -> str:
    """The value of Ray's argument `--name=value` or `--name value` of this worker process, or nothing."""
    for position, word in enumerate(argv):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and position + 1 < len(argv):
            return argv[position + 1]
    return ""
