"""The recovery flow: wait for a moment worth breaking, inject a fault, follow the recovery, revert, judge.

Everything a person sees live (`Moment`) and everything the receipt is judged on comes from the same three
sources: the ledger in the object store, Ray's node list, Ray's Jobs API.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.cluster import Node, infeasible
from lab.errors import (
    ClusterError,
    NotFoundError,
    RefusedError,
    StoreError,
    UsageError,
    WaitTimeoutError,
)
from lab.faults import Fault, find_fault
from lab.jobs import Job
from lab.lab import Lab, Placement, place
from lab.ledger import Event, History, Run, RunAttempt
from lab.topology import HEAD, is_worker

if TYPE_CHECKING:
    from lab.receipt import FaultRecord, Receipt

POLL_SECONDS = 0.25
NODES_POLL_SECONDS = 0.5
RECEIPTS_PREFIX = ".raylab/receipts"

DOWN_TIME_LIMIT_SECONDS = 30.0
"""A node that was killed or stopped comes back after this even if training has not gone on elsewhere."""

JOB_SECONDS = 3600.0
"""Deadline for the job to end once it has recovered."""

SETTLE_POLLS = 3
"""Looks at the ledger after the job has ended."""


@dataclass(frozen=True)
class FaultRequest:
    """What to break, and when. `duration` is in seconds, as are `after_seconds` and `timeout`."""

    target: str
    kind: str = "kill"
    job: str = ""
    """Empty: the one job that runs."""
    after_epoch: int | None = None
    """Inject once a checkpoint of this epoch (or a later one) is complete; None: of any epoch."""
    after_seconds: float | None = None
    """Inject after this long instead."""
    duration: float | None = None
    """How long the fault lasts; None: the fault's own default."""
    timeout: float = 120.0
    """Deadline for the wait before the fault, and again for the first report after it."""


@dataclass(frozen=True)
class Moment:
    """One line of the live timeline. `seconds` counts from the fault; None before it."""

    key: str
    seconds: float | None
    text: str


@dataclass(frozen=True)
class Outcome:
    """What was done, and the receipt when the recovery was waited for."""

    fault: FaultRecord
    receipt: Receipt | None


OnMoment = Callable[[Moment], None]


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


def inject(
    lab: Lab,
    request: FaultRequest,
    on_moment: OnMoment,
    *,
    wait: bool = True,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Inject a fault into a running job and, with `wait`, follow the job to its end and judge the recovery.

    The fault is reverted whatever happens, Ctrl-C included. Raises NotFoundError, RefusedError, LabDownError,
    WaitTimeoutError (the moment to inject never came; nothing was changed), and what the revert raises.
    """
    fault = find_fault(request.kind)
    if request.duration is not None and request.duration <= 0:
        raise UsageError(f"--for {request.duration:g}: must be more than 0 seconds")
    check_target(lab, request.target)
    job = lab.jobs.get(request.job) if request.job else lab.running_job()
    if job.final:
        raise RefusedError(f"job {job.submission_id} has ended ({job.status})", "submit another one")
    watch = _Watch(lab, job.submission_id, clock)
    node = _wait_for_the_moment(lab, watch, request, on_moment, clock, sleep)
    return _Injection(lab, fault, request, watch, node, on_moment, clock, sleep).run(wait)


class _Watch:
    """What is known of a job: refreshed by `poll`, which bears a cluster that does not answer."""

    def __init__(self, lab: Lab, submission_id: str, clock: Callable[[], float]) -> None:
        from lab.checkpoints import LedgerReader

        self.submission_id = submission_id
        self._problems: dict[str, str] = {}
        self.events: list[Event] = []
        self.history = History.of(())
        self.nodes: tuple[Node, ...] = ()
        self.job: Job | None = None
        self._lab, self._clock = lab, clock
        self._reader = LedgerReader(lab.store, submission_id)
        self._nodes_at = 0.0

    def poll(self) -> None:
        try:
            new = self._reader.poll()
            if new:
                self.events.extend(new)
                self.history = History.of(self.events)
            self._problems.pop("ledger", None)
        except StoreError as error:
            self._problems["ledger"] = f"the ledger could not be read: {error.message}"
        now = self._clock()
        if now - self._nodes_at >= NODES_POLL_SECONDS:
            try:
                self.nodes = self._lab.api.nodes()
                self.job = self._lab.jobs.get(self.submission_id)
                self._nodes_at = now
                self._problems.pop("ray", None)
            except ClusterError as error:
                self._problems["ray"] = f"Ray did not answer: {error.message}"

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read when it was last asked for; a silence before that does not count."""
        return tuple(self._problems.values())

    @property
    def run(self) -> Run | None:
        """The run that is going on (the newest one)."""
        return self.history.runs[-1] if self.history.runs else None

    @property
    def attempt(self) -> RunAttempt | None:
        return self.run.attempts[-1] if self.run and self.run.attempts else None

    @property
    def live_attempt(self) -> RunAttempt | None:
        """The attempt that trains now, as far as the ledger says."""
        run, attempt = self.run, self.attempt
        if run is None or attempt is None or run.finished_at is not None or not attempt.nodes:
            return None
        return attempt if attempt.ended_at is None and attempt.failure_detected_at is None else None

    def node_of(self, service: str) -> Node | None:
        return next((n for n in reversed(self.nodes) if n.alive and n.service == service), None)


def _wait_for_the_moment(
    lab: Lab,
    watch: _Watch,
    request: FaultRequest,
    on_moment: OnMoment,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Node:
    """Wait until the trigger has come and the target runs a part of the job; returns the target's node."""
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
        newest = watch.run.checkpoints[-1] if watch.run and watch.run.checkpoints else None
        if newest is not None and newest.progress != shown:
            shown = newest.progress
            on_moment(
                Moment("progress", None, f"checkpoint of {_progress_name(watch.run)} {shown} is complete")
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
            reached = (
                "no checkpoint"
                if newest is None
                else f"{len(watch.run.checkpoints) if watch.run else 0} checkpoints"
            )
            if shown is not None:
                reached = f"the newest checkpoint is of {_progress_name(watch.run)} {shown}"
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


def _triggered(request: FaultRequest, watch: _Watch, waited: float) -> bool:
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


def _progress_name(run: Run | None) -> str:
    return (run.progress_key if run else None) or "epoch"


class _Revert:
    """Runs the fault's revert once, beside the watching, and keeps what it raised."""

    def __init__(self, fault: Fault, lab: Lab, service: str, clock: Callable[[], float]) -> None:
        self.done_at: float | None = None
        self.error: Exception | None = None
        self._fault, self._lab, self._service, self._clock = fault, lab, service, clock
        self._thread: threading.Thread | None = None

    @property
    def begun(self) -> bool:
        return self._thread is not None

    @property
    def ended(self) -> bool:
        """Whether it was carried out, or has failed."""
        return self.done_at is not None or self.error is not None

    def begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="raylab-revert", daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Revert, if that has not begun, and wait for the end. Raises what the revert raised."""
        self.begin()
        assert self._thread is not None
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._fault.revert(self._lab.runtime, self._service)
            self.done_at = self._clock()
        except Exception as error:  # raised by `finish`, in the thread that waits
            self.error = error


@dataclass
class _Injection:
    """One fault from its injection to its receipt."""

    lab: Lab
    fault: Fault
    request: FaultRequest
    watch: _Watch
    node: Node
    on_moment: OnMoment
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    at: float = 0.0
    told: set[str] = field(default_factory=set)

    def run(self, wait: bool) -> Outcome:
        duration = self.request.duration if self.request.duration is not None else self.fault.default_duration
        hit = self.watch.attempt
        revert = _Revert(self.fault, self.lab, self.request.target, self.clock)
        self.at = self.clock()
        try:
            self.fault.inject(self.lab.runtime, self.request.target)
            self.tell("fault", 0.0, f"{self.request.kind} {self.request.target}")
            self.follow(hit, duration, revert, to_the_end=wait)
        finally:
            revert.finish()
        record = self.record(revert)
        return Outcome(record, self.judge(record) if wait else None)

    def follow(
        self, hit: RunAttempt | None, duration: float | None, revert: _Revert, *, to_the_end: bool
    ) -> None:
        """Tell what happens, begin the revert when its time has come, and return when it is all over.

        That is when the fault is reverted and, with `to_the_end`, the job has ended; or at the deadline.
        """
        while True:
            self.look(hit)
            now = self.clock()
            if not revert.begun and self.time_to_revert(hit, duration, now - self.at):
                revert.begin()
            reverted = revert.ended
            if revert.done_at is not None:
                self.tell("reverted", self.since(revert.done_at), f"{self.request.target} is healthy again")
            job = self.watch.job
            if reverted and job is not None and job.final:
                for _ in range(SETTLE_POLLS):  # the ledger's last lines may still be on their way
                    self.sleep(POLL_SECONDS)
                    self.look(hit)
                self.tell("job_finished", self.since(job.ended_at), f"job {job.submission_id}: {job.status}")
                return
            if reverted and not to_the_end:
                return
            if now >= self.at + (duration or 0.0) + self.request.timeout + self.patience:
                return
            self.sleep(POLL_SECONDS)

    @property
    def patience(self) -> float:
        """Seconds to wait on top of the deadline."""
        return JOB_SECONDS if "first_report" in self.told else 0.0

    def time_to_revert(self, hit: RunAttempt | None, duration: float | None, elapsed: float) -> bool:
        if duration is not None:
            return elapsed >= duration
        if "first_report" in self.told or elapsed >= DOWN_TIME_LIMIT_SECONDS:
            return True
        if self.watch.job is not None and self.watch.job.final:
            return True
        return "node_dead" in self.told and not self.rest_can_hold(hit)

    def rest_can_hold(self, hit: RunAttempt | None) -> bool:
        """Whether the other nodes could run all ranks of the attempt that was hit, were they free."""
        run = self.watch.run
        demand = dict(run.plan.resources_per_worker) if run and run.plan else {}
        ranks = len(hit.nodes) if hit else 1
        others = tuple(n for n in self.watch.nodes if n.alive and n.service != self.request.target)
        places = 0
        for node in others:
            if infeasible(demand, (node,)) is None:
                fits = [int(node.resources.get(k, 0.0) // v) for k, v in demand.items() if v > 0]
                places += min(fits) if fits else ranks
        return places >= ranks

    def look(self, hit: RunAttempt | None) -> None:
        """Poll, and tell what is new."""
        watch = self.watch
        watch.poll()
        dead = next((n for n in watch.nodes if n.node_id == self.node.node_id and not n.alive), None)
        if dead is not None:
            self.tell("node_dead", self.since(dead.ended_at), f"Ray declares the node dead: {dead.reason}")
        rejoined = next(
            (
                n
                for n in watch.nodes
                if n.service == self.request.target and (n.started_at or 0) > self.at and n.alive
            ),
            None,
        )
        run = watch.run
        if run is not None and hit is not None:
            name = _progress_name(run)
            was = next((a for a in run.attempts if a.number == hit.number), None)
            if was is not None and was.failure_detected_at is not None:
                self.tell(
                    "failure_detected", self.since(was.failure_detected_at), "Ray Train acts on the failure"
                )
            for attempt in run.attempts:
                if attempt.number <= hit.number or attempt.started_at is None:
                    continue
                services = {n.node_id: n.service for n in watch.nodes}
                where = ", ".join(dict.fromkeys(services.get(n, n[:8]) for n in attempt.nodes.values()))
                self.tell(
                    "attempt_started", self.since(attempt.started_at), f"attempt {attempt.number} on {where}"
                )
                if attempt.loads:
                    uri = attempt.loads[0].uri.rsplit("/", 1)[-1]
                    self.tell("restored", self.since(attempt.loads[0].at), f"read {uri}")
                if attempt.reports:
                    first = attempt.reports[0]
                    what = "reports again" if first.progress is None else f"reports {name} {first.progress}"
                    self.tell("first_report", self.since(first.at), what)
            last = run.last
            if (
                last is not None
                and last.progress is not None
                and last.at > self.at
                and "first_report" in self.told
            ):
                total = f"/{run.plan.epochs}" if run.plan and run.plan.epochs else ""
                self.tell(f"progress {last.progress}", self.since(last.at), f"{name} {last.progress}{total}")
        if rejoined is not None:
            self.tell(
                "node_rejoined",
                self.since(rejoined.started_at),
                f"{self.request.target} is back in the cluster",
            )

    def record(self, revert: _Revert) -> FaultRecord:
        from lab.receipt import FaultRecord

        parameters = {"for": self.request.duration} if self.request.duration is not None else {}
        return FaultRecord(
            kind=self.request.kind,
            target=self.request.target,
            node_id=self.node.node_id,
            at=self.at,
            reverted_at=revert.done_at,
            parameters=parameters,
        )

    def judge(self, record: FaultRecord) -> Receipt:
        """Collect the evidence, judge it, and keep the receipt in the object store."""
        from lab.checkpoints import stored_manifest
        from lab.receipt import Evidence, NodeRecord, judge

        watch = self.watch
        problems = list(watch.problems)
        stored: dict[str, dict[str, str]] = {}
        for run in watch.history.runs:
            for uri in {load.uri for attempt in run.attempts for load in attempt.loads}:
                try:
                    manifest = stored_manifest(self.lab.store, uri)
                except StoreError as error:
                    problems.append(f"{uri} could not be read back: {error.message}")
                    continue
                if manifest:
                    stored[uri] = dict(manifest)
        job = watch.job
        receipt = judge(
            Evidence(
                submission_id=watch.submission_id,
                job_status=job.status if job else "",
                job_message=job.message if job else "",
                fault=record,
                events=tuple(watch.events),
                nodes=tuple(
                    NodeRecord(n.service, n.node_id, n.alive, n.started_at, n.ended_at, n.reason)
                    for n in watch.nodes
                ),
                stored=stored,
                services=self.lab.status().services,
                problems=tuple(problems),
            )
        )
        name = f"{RECEIPTS_PREFIX}/{watch.submission_id}-{int(self.at)}.json"
        try:
            self.lab.store.put(name, json.dumps(receipt.to_json(), indent=1).encode())
        except StoreError as error:
            self.tell("problem", None, f"the receipt could not be kept in the object store: {error.message}")
        return receipt

    def since(self, moment: float | None) -> float | None:
        return None if moment is None else moment - self.at

    def tell(self, key: str, seconds: float | None, text: str) -> None:
        """Pass a moment on, once. `progress N` is told once for every N, under the key `progress`."""
        if key not in self.told:
            self.told.add(key)
            self.on_moment(Moment(key.split(" ", 1)[0], seconds, text))
