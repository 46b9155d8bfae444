"""Waits for the moment to inject a fault, and picks what it hits."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from lab.cluster.allocation import holdings, read
from lab.cluster.api import Node, infeasible
from lab.cluster.jobs import Job
from lab.cluster.placement import Placement, place
from lab.cluster.queues import WORKLOAD
from lab.errors import NotFoundError, RefusedError, UnsupportedError, UsageError, WaitTimeoutError
from lab.evidence.ledger import PROGRESS_KEYS, Number, Run, progress_in
from lab.faults import FaultKind, RankProcess, Scope
from lab.flows.recovery.patience import Patience
from lab.flows.recovery.request import FaultRequest, Moment, OnMoment
from lab.flows.recovery.watch import Watch, progress_name
from lab.lab import Lab
from lab.runtime.active_faults import refuse_shared
from lab.runtime.base import Feature, NodeControl


@dataclass(frozen=True)
class Aim:
    """The target of a fault, with its node, ranks and checkpoints at the moment of injection."""

    target: str
    node: Node | None
    """The target's own, where it is a node that runs a part of the job."""
    ranks: tuple[RankProcess, ...]
    """Ranks of the attempt that trains, with their processes; only those on the target if it is a node."""
    checkpoints: tuple[str, ...]
    """URIs of the committed ones, the oldest first."""


def check_target(lab: NodeControl, target: str, kind: FaultKind) -> str:
    """The target of a fault of this kind; empty while it is not known: where rank 0 trains.

    Raises NotFoundError for an unknown service, RefusedError for one that this fault does not hit.
    """
    names = [status.service for status in lab.status().services]
    if not names:
        lab.spec()  # raises LabDownError
    fixed = kind.scope.target
    if not target:
        return fixed
    if target not in names:
        raise NotFoundError(f"lab {lab.lab} has no service {target!r}", f"it has: {', '.join(names)}")
    if fixed and target != fixed:
        raise RefusedError(f"{kind.name} is a fault of {fixed}, not of {target}", f"leave {target} out")
    if not fixed and not lab.is_worker(target):
        others = (
            "; its own faults: labctl fault-inject --list"
            if any(scope.target == target for scope in Scope)
            else ""
        )
        raise RefusedError(
            f"{kind.name} is a fault of a node that trains; {target} runs no rank of a job",
            "choose a worker: " + ", ".join(name for name in names if lab.is_worker(name)) + others,
        )
    return target


def refuse_leaving_down(lab: NodeControl, kind: FaultKind, request: FaultRequest) -> None:
    """Refuse to leave down what would not stay so. Raises UsageError, UnsupportedError."""
    if kind.scope is not Scope.NODE or not kind.traits.ends_node:
        raise UsageError(f"{kind.name} ends no node that could be left down", "take `--fault stop` or `kill`")
    if request.duration is not None:
        raise UsageError("a node that is left down has no end to its fault", "leave --for out")
    if lab.missing(Feature.PROCESSES):
        raise UnsupportedError("a pod cannot be left down: its cluster starts another one")


def wait_for_trigger(watch: Watch, request: FaultRequest, kind: FaultKind, on_moment: OnMoment) -> Aim:
    """Wait until the trigger has come and the job trains, on the target where that is a node.

    The wait ends with the job, after `request.timeout`, or without one when the job makes no progress. Raises
    RefusedError, WaitTimeoutError.
    """
    watch.target = request.target
    after = request.after_seconds or 0.0
    limit = inf if request.timeout is None else request.timeout + after
    patience = Patience(watch, limit)
    wanted = _trigger_text(request, watch)
    on_moment(Moment("waiting", None, f"waiting for {wanted} in job {watch.submission_id}"))
    shown = None
    for _ in patience.polls():
        if patience.waited < after and not watch.outage.seconds:
            patience.restart()
        wanted = _trigger_text(request, watch)
        _refuse_lost(watch, wanted)
        newest = watch.run.checkpoints[-1] if watch.run and watch.run.checkpoints else None
        if newest is not None and newest.progress != shown:
            shown = newest.progress
            on_moment(
                Moment("progress", None, f"checkpoint of {progress_name(watch.run)} {shown} is complete")
            )
        watch.focus = ""
        aim = take_aim(watch, request.target, kind)
        if aim is not None and (run := _due(request, watch.live_runs, patience.waited)) is not None:
            watch.focus = run.name
            aim = take_aim(watch, request.target, kind)
            if aim is not None:
                return aim
    raise WaitTimeoutError(
        f"waited {patience.waited:.0f} s for {wanted}; "
        f"job {watch.submission_id} is {watch.status}, {_reached(watch)}; {patience.describe()}",
        f"labctl jobs logs {watch.submission_id}; "
        + ("labctl status" if limit == inf else "a longer wait: --timeout 10m, or none"),
    )


def refuse_others(watch: Watch, target: str) -> None:
    """Refuse a node on which a job of another namespace holds something. RefusedError, ClusterError."""
    snapshot = read(watch.lab.api)
    spaces = {job.submission_id: job.metadata.get(WORKLOAD, "").partition("/")[0] for job in snapshot.jobs}
    mine, there = spaces.get(watch.submission_id), {h.job for h in holdings(snapshot) if h.service == target}
    refuse_shared(target, sorted(job for job in there if spaces.get(job) != mine))


def _refuse_lost(watch: Watch, wanted: str) -> None:
    """Refuse a job that has ended, or that no node of the cluster can start. Raises RefusedError."""
    job = watch.job
    if job is None:
        return
    if job.final:
        hint = "inject earlier, or train longer: labctl submit digits -p epochs=60"
        if watch.run is None:
            hint = f"a fault is aimed at a training of Ray Train; of this job there is {_reached(watch)}"
        raise ended(watch.lab, job, hint, wanted)
    why = infeasible(job.demand, watch.nodes) if job.status == "PENDING" and watch.nodes else ""
    if why:
        raise RefusedError(
            f"job {job.submission_id} does not start: {why}", f"labctl jobs stop {job.submission_id}"
        )


def ended(lab: Lab, job: Job, hint: str, before: str = "") -> RefusedError:
    """The error for a job that cannot be broken any more, with the reason of its failure if known."""
    what = f"job {job.submission_id} has ended ({job.status})"
    if before:
        what = f"job {job.submission_id} ended ({job.status}) before {before}"
    why = lab.why_failed(job)
    return RefusedError(what, hint) if why is None else RefusedError(f"{what}: {why.summary}", why.advice)


def live_job(lab: Lab, submission_id: str, hint: str) -> Job:
    """The job of this id, which must not have ended; without an id the one that runs.

    Raises NotFoundError, UsageError, RefusedError.
    """
    job = lab.jobs.get(submission_id) if submission_id else lab.running_job()
    if job.final:
        raise ended(lab, job, hint)
    return job


def take_aim(watch: Watch, target: str, kind: FaultKind) -> Aim | None:
    """The aim of the fault if it came now; None while the job does not train. Raises RefusedError."""
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
        known = {node.node_id: node.service for node in watch.nodes}
        if target in (known.get(node_id) for node_id in attempt.nodes.values()):
            return None  # it has lost its node, and the attempt is about to be lost with that
        raise _not_part(target, place(watch.job, watch.history, watch.nodes))
    return Aim(target, node, tuple(r for r in ranks if r.service == target), checkpoints)


def _not_part(target: str, placement: Placement) -> RefusedError:
    """The error for a target that has no rank of the job."""
    ranks = ", ".join(dict.fromkeys(service for _, service in placement.workers)) or "no node"
    what = f"{target} runs no part of job {placement.submission_id}; the job runs on {ranks}"
    if target == placement.driver:
        what = f"{target} runs only the entrypoint of job {placement.submission_id}, which nothing would "
        what += f"start again; the job's ranks run on {ranks}"
    hint = f"labctl fault-inject {placement.workers[0][1]}" if placement.workers else "wait until it trains"
    return RefusedError(what, hint)


def _reached(watch: Watch) -> str:
    """The job's newest checkpoint, for a person whose moment did not come."""
    run = watch.run
    if run is None:
        return "no checkpoint and no ledger: it runs no Ray Train, or its ledger cannot be written"
    if not run.checkpoints:
        return "no checkpoint"
    progress = run.checkpoints[-1].progress
    if progress is None:
        return f"{len(run.checkpoints)} checkpoints"
    return f"the newest checkpoint is of {progress_name(run)} {progress}"


def _due(request: FaultRequest, runs: tuple[Run, ...], waited: float) -> Run | None:
    """Return the live run whose moment has come: one that has that checkpoint, or after a time any, of
    those with a checkpoint the newest. Raises RefusedError for an epoch where no run counts any."""
    if request.after_seconds is not None:
        able = [run for run in runs if run.checkpoints] or list(runs)
        return able[-1] if able and waited >= request.after_seconds else None
    reported = [run for run in runs if run.last is not None]
    if request.after_epoch is not None and reported and not any(_counts(run) for run in runs):
        metrics = ", ".join(reported[-1].last.metrics) if reported[-1].last else ""
        raise RefusedError(
            f"run {reported[-1].name} reports no epoch or step to wait for, only: {metrics or 'nothing'}",
            "name a time instead: --after 10s",
        )
    saved = [(run, _progress(run)) for run in runs if run.checkpoints]
    if request.after_epoch is None:
        return saved[-1][0] if saved else None
    least = request.after_epoch
    return next(
        (run for run, reached in saved if _counts(run) and reached is not None and reached >= least), None
    )


def _counts(run: Run) -> bool:
    """Tell whether a script says itself how far it is, as far as it is known."""
    reports = [report for attempt in run.attempts for report in attempt.reports]
    return not reports or any(progress_in(report.metrics) is not None for report in reports)


def _progress(run: Run) -> Number | None:
    """Return how far the script says it was at its newest checkpoint.

    An epoch that several reports have does not tell how far a training is, but it does come.
    """
    newest = run.checkpoints[-1]
    if run.progress_key in PROGRESS_KEYS:
        return newest.progress
    reports = (r for a in run.attempts if a.number == newest.attempt for r in reversed(a.reports))
    values = (progress_in(report.metrics) for report in reports if report.number <= newest.report)
    return next((value for value in values if value is not None), None)


def _trigger_text(request: FaultRequest, watch: Watch) -> str:
    if request.after_seconds is not None:
        return f"{request.after_seconds:g} s to pass"
    if request.after_epoch is not None:
        return f"the checkpoint of {progress_name(watch.run)} {request.after_epoch}"
    return "a complete checkpoint"
