"""When and where to inject: the target runs a part of the job, and a moment worth breaking has come."""

from __future__ import annotations

from collections.abc import Callable

from lab.cluster import Node, infeasible
from lab.errors import NotFoundError, RefusedError, WaitTimeoutError
from lab.lab import Lab, Placement, place
from lab.recovery.request import FaultRequest, Moment, OnMoment
from lab.recovery.watch import POLL_SECONDS, Watch, progress_name
from lab.topology import HEAD, is_worker


def check_target(lab: Lab, target: str) -> None:
    """Raises NotFoundError for an unknown service, RefusedError for one that must not be broken yet."""
    names = [status.service for status in lab.status().services]
    if not names:
        lab.runtime.spec()  # raises LabDownError
    if target not in names:
        raise NotFoundError(f"lab {lab.name} has no service {target!r}", f"it has: {', '.join(names)}")
    if target == HEAD:
        raise RefusedError(
            "ray-head holds the cluster's state and the job itself: without fault tolerance of the GCS "
            "nothing could recover from its loss",
            "choose a worker: " + ", ".join(name for name in names if is_worker(name)),
        )
    if not is_worker(target):
        raise RefusedError(
            f"{target} runs no part of a job; faults of the store and other services are not built yet",
            "choose a worker: " + ", ".join(name for name in names if is_worker(name)),
        )


def wait_for_the_moment(
    watch: Watch,
    request: FaultRequest,
    on_moment: OnMoment,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Node:
    """Wait until the trigger has come and the target runs a part of the job; returns the target's node."""
    watch.target = request.target
    begin = clock()
    deadline = begin + request.timeout + (request.after_seconds or 0.0)
    wanted = _trigger_text(request)
    on_moment(Moment("waiting", None, f"waiting for {wanted} in job {watch.submission_id}"))
    shown = None
    while True:
        watch.poll()
        if watch.job is not None and watch.job.final:
            raise RefusedError(
                f"job {watch.submission_id} ended ({watch.job.status}) before {wanted}",
                "inject earlier, or train longer: submit digits -p epochs=60",
            )
        if watch.job is not None and watch.job.status == "PENDING" and watch.nodes:
            why = infeasible(watch.job.demand, watch.nodes)
            if why:
                raise RefusedError(
                    f"job {watch.submission_id} does not start: {why}",
                    f"labctl job stop {watch.submission_id}",
                )
        newest = watch.run.checkpoints[-1] if watch.run and watch.run.checkpoints else None
        if newest is not None and newest.progress != shown:
            shown = newest.progress
            on_moment(
                Moment("progress", None, f"checkpoint of {progress_name(watch.run)} {shown} is complete")
            )
        attempt = watch.live_attempt
        if attempt is not None and watch.job is not None and watch.nodes:
            node = watch.node_of(request.target)
            if node is None or node.node_id not in attempt.nodes.values():
                raise _not_part(request.target, place(watch.job, watch.history, watch.nodes))
            if _triggered(request, watch, clock() - begin):
                return node
        if clock() >= deadline:
            state = watch.job.status if watch.job else "unknown"
            reached = _reached(watch)
            raise WaitTimeoutError(
                f"waited {clock() - begin:.0f} s for {wanted}; "
                f"job {watch.submission_id} is {state}, {reached}",
                f"labctl job logs {watch.submission_id}; a longer wait: --timeout 10m",
            )
        sleep(POLL_SECONDS)


def _not_part(target: str, placement: Placement) -> RefusedError:
    """Why `target` is no place for a fault: it has no rank of the job."""
    ranks = ", ".join(dict.fromkeys(service for _, service in placement.workers)) or "no node"
    what = f"{target} runs no part of job {placement.submission_id}; the job runs on {ranks}"
    if target == placement.driver:
        what = f"{target} runs only the entrypoint of job {placement.submission_id}, which nothing would "
        what += f"start again; the job's ranks run on {ranks}"
    hint = f"labctl fault-inject {placement.workers[0][1]}" if placement.workers else "wait until it trains"
    return RefusedError(what, hint)


def _reached(watch: Watch) -> str:
    """How far the job has come, for a person whose moment did not."""
    run = watch.run
    if run is None:
        return "no checkpoint and no ledger: it runs no Ray Train, or its ledger cannot be written"
    if not run.checkpoints:
        return "no checkpoint"
    progress = run.checkpoints[-1].progress
    if progress is None:
        return f"{len(run.checkpoints)} checkpoints"
    return f"the newest checkpoint is of {progress_name(run)} {progress}"


def _triggered(request: FaultRequest, watch: Watch, waited: float) -> bool:
    if request.after_seconds is not None:
        return waited >= request.after_seconds
    if watch.run is None or not watch.run.checkpoints:
        return False
    progress = watch.run.checkpoints[-1].progress
    return request.after_epoch is None or (progress is not None and progress >= request.after_epoch)


def _trigger_text(request: FaultRequest) -> str:
    if request.after_seconds is not None:
        return f"{request.after_seconds:g} s to pass"
    if request.after_epoch is not None:
        return f"the checkpoint of epoch {request.after_epoch}"
    return "a complete checkpoint"
