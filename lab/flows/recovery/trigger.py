"""When and where to inject: the target runs a part of the job, and a moment worth breaking has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.cluster.api import Node, infeasible
from lab.errors import NotFoundError, RefusedError, WaitTimeoutError
from lab.faults import FaultKind, RankProcess, Scope
from lab.flows.recovery.patience import Patience
from lab.flows.recovery.request import FaultRequest, Moment, OnMoment
from lab.flows.recovery.watch import POLL_SECONDS, Watch, progress_name
from lab.lab import Lab, Placement, place
from lab.topology import is_worker

if TYPE_CHECKING:
    from lab.cluster.explain import Explanation


@dataclass(frozen=True)
class Aim:
    """What a fault is going to hit, at the moment it may."""

    target: str
    node: Node | None
    """The target's, where it is a node that runs a part of the job."""
    ranks: tuple[RankProcess, ...]
    """Of the attempt that trains, with their processes; those on the target alone where it is a node."""
    checkpoints: tuple[str, ...]
    """URIs of the committed ones, the oldest first."""


def check_target(lab: Lab, target: str, kind: FaultKind) -> str:
    """The target of a fault of this kind; empty while it is not known: where rank 0 trains.

    Raises NotFoundError for an unknown service, RefusedError for one that this fault does not hit.
    """
    names = [status.service for status in lab.status().services]
    if not names:
        lab.runtime.spec()  # raises LabDownError
    fixed = kind.scope.target
    if not target:
        return fixed
    if target not in names:
        raise NotFoundError(f"lab {lab.name} has no service {target!r}", f"it has: {', '.join(names)}")
    if fixed and target != fixed:
        raise RefusedError(f"{kind.name} is a fault of {fixed}, not of {target}", f"leave {target} out")
    if not fixed and not is_worker(target):
        others = "; its own: labctl faults" if any(scope.target == target for scope in Scope) else ""
        raise RefusedError(
            f"{kind.name} is a fault of a node that trains; {target} runs no rank of a job",
            "choose a worker: " + ", ".join(name for name in names if is_worker(name)) + others,
        )
    return target


def wait_for_the_moment(
    watch: Watch,
    request: FaultRequest,
    kind: FaultKind,
    on_moment: OnMoment,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Aim:
    """Wait until the trigger has come and the job trains, on the target where that is a node.

    The wait ends with the job, after `request.timeout`, or without one when the job does not get on.
    """
    watch.target = request.target
    begin, after = clock(), request.after_seconds or 0.0
    limit = None if request.timeout is None else request.timeout + after
    patience = Patience(watch, clock, limit)
    wanted = _trigger_text(request)
    on_moment(Moment("waiting", None, f"waiting for {wanted} in job {watch.submission_id}"))
    shown = None
    while True:
        watch.poll()
        patience.look()
        if clock() - begin < after:
            patience.rest()
        if watch.job is not None and watch.job.final:
            raise ended(
                f"job {watch.submission_id} ended ({watch.job.status}) before {wanted}",
                "inject earlier, or train longer: submit digits -p epochs=60",
                watch.why_failed(),
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
        aim = take_aim(watch, request.target, kind)
        if aim is not None and _triggered(request, watch, clock() - begin):
            return aim
        why = patience.over
        if why:
            state = watch.job.status if watch.job else "unknown"
            raise WaitTimeoutError(
                f"waited {patience.waited:.0f} s for {wanted}; "
                f"job {watch.submission_id} is {state}, {_reached(watch)}; {why}: {patience.told()}",
                f"labctl job logs {watch.submission_id}; "
                + ("labctl status" if limit is None else "a longer wait: --timeout 10m, or none"),
            )
        sleep(POLL_SECONDS)


def ended(what: str, hint: str, why: Explanation | None) -> RefusedError:
    """A job cannot be broken any more; of one that failed the reason is said, where it is known."""
    if why is None:
        return RefusedError(what, hint)
    return RefusedError(f"{what}: {why.told}", why.advice)


def take_aim(watch: Watch, target: str, kind: FaultKind) -> Aim | None:
    """What the fault would hit now; None while the job does not train. Raises RefusedError."""
    attempt = watch.live_attempt
    if attempt is None or watch.job is None or not watch.nodes or watch.run is None:
        return None
    services = {node.node_id: node.service for node in watch.nodes if node.alive}
    ranks = tuple(
        RankProcess(rank, services[node_id], attempt.pids.get(rank, 0))
        for rank, node_id in sorted(attempt.nodes.items())
        if node_id in services
    )
    checkpoints = tuple(checkpoint.uri for checkpoint in watch.run.checkpoints)
    if kind.scope.target:
        return Aim(target, None, ranks, checkpoints)
    if not target and ranks:
        target = ranks[0].service
    node = watch.node_of(target)
    if node is None or node.node_id not in attempt.nodes.values():
        raise _not_part(target, place(watch.job, watch.history, watch.nodes))
    return Aim(target, node, tuple(r for r in ranks if r.service == target), checkpoints)


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
