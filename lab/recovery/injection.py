"""One fault, from its injection to its receipt."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.cluster import Node, places
from lab.errors import StoreError
from lab.faults import Fault
from lab.lab import Lab
from lab.recovery.faultlog import FaultLog, LoggedFault
from lab.recovery.request import FaultRequest, OnMoment, Outcome
from lab.recovery.revert import Revert
from lab.recovery.timeline import Timeline
from lab.recovery.watch import POLL_SECONDS, Watch

if TYPE_CHECKING:
    from lab.receipt import FaultRecord, Receipt

RECEIPTS_PREFIX = ".raylab/receipts"
"""Where in the bucket the receipts are kept."""

DOWN_TIME_LIMIT_SECONDS = 30.0
"""A node that was killed or stopped comes back after this even if training has not gone on elsewhere."""

JOB_SECONDS = 3600.0
"""Deadline for the job to end once it has recovered."""

SETTLE_POLLS = 3
"""Looks at the ledger after the job has ended: its last lines may still be on their way."""


class Injection:
    """Injects a fault, follows what it does, reverts it, and judges the recovery."""

    def __init__(
        self,
        lab: Lab,
        fault: Fault,
        request: FaultRequest,
        watch: Watch,
        node: Node,
        on_moment: OnMoment,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """`node` is the target's; the watched job trains on it now."""
        self._lab, self._fault, self._request, self._watch = lab, fault, request, watch
        self._node, self._on_moment, self._clock, self._sleep = node, on_moment, clock, sleep
        self._hit = watch.attempt
        self._duration = request.duration if request.duration is not None else fault.default_duration
        self._revert = Revert(fault, lab, request.target, clock)

    def run(self, wait: bool) -> Outcome:
        """Do it all; without `wait`, only until the fault is reverted, and without a receipt.

        A revert that fails makes a receipt that says so; without one it raises.
        """
        target = self._request.target
        at = self._clock()
        timeline = Timeline(
            self._watch, self._on_moment, target=target, node=self._node, hit=self._hit, at=at
        )
        log = FaultLog(
            self._lab.store, self._watch.submission_id, LoggedFault(self._request.kind, target, at)
        )
        try:
            self._fault.inject(self._lab.runtime, target)
            timeline.tell("fault", at, f"{self._request.kind} {target}")
            log.record()
            self._follow(timeline, log, to_the_end=wait)
        finally:
            try:
                self._revert.finish()
            finally:
                if log.begun:
                    log.record(self._revert.done_at, again=True)
        if log.problem:
            timeline.tell("problem fault", None, log.problem)
        if not wait:
            self._revert.check()
            return Outcome(self._record(at), None)
        record = self._record(at)
        return Outcome(record, self._judge(record, timeline))

    def _follow(self, timeline: Timeline, log: FaultLog, *, to_the_end: bool) -> None:
        """Tell what happens, begin the revert when its time has come, and return when it is all over.

        That is when the fault is reverted and, with `to_the_end`, the job has ended; or at the deadline.
        """
        revert = self._revert
        deadline = timeline.at + (self._duration or 0.0) + self._request.timeout
        while True:
            self._look(timeline)
            now = self._clock()
            if not revert.begun and self._time_to_revert(timeline, now - timeline.at):
                revert.begin()
            reverted = revert.ended
            if revert.done_at is not None:
                timeline.tell("reverted", revert.done_at, f"{self._request.target} is healthy again")
                log.record(revert.done_at)
            job = self._watch.job
            if reverted and job is not None and job.final:
                for _ in range(SETTLE_POLLS):
                    self._sleep(POLL_SECONDS)
                    self._look(timeline)
                timeline.tell("job_finished", job.ended_at, f"job {job.submission_id}: {job.status}")
                return
            if reverted and not to_the_end:
                return
            if now >= deadline + (JOB_SECONDS if "first_report" in timeline.told else 0.0):
                return
            self._sleep(POLL_SECONDS)

    def _look(self, timeline: Timeline) -> None:
        self._watch.poll()
        timeline.look()

    def _time_to_revert(self, timeline: Timeline, elapsed: float) -> bool:
        if self._duration is not None:
            return elapsed >= self._duration
        if "first_report" in timeline.told or elapsed >= DOWN_TIME_LIMIT_SECONDS:
            return True
        if self._watch.job is not None and self._watch.job.final:
            return True
        return "node_dead" in timeline.told and not self._rest_can_hold(timeline)

    def _rest_can_hold(self, timeline: Timeline) -> bool:
        """Whether the other nodes could run all ranks of the attempt that was hit, were they free."""
        plan = timeline.run.plan if timeline.run else None
        ranks = len(self._hit.nodes) if self._hit else 1
        others = tuple(node for node in self._watch.nodes if node.service != self._request.target)
        return places(plan.resources_per_worker if plan else {}, others, ranks) >= ranks

    def _record(self, at: float) -> FaultRecord:
        from lab.receipt import FaultRecord

        return FaultRecord(
            kind=self._request.kind,
            target=self._request.target,
            node_id=self._node.node_id,
            at=at,
            reverted_at=self._revert.done_at,
            parameters={"for": self._request.duration} if self._request.duration is not None else {},
        )

    def _judge(self, record: FaultRecord, timeline: Timeline) -> Receipt:
        """Collect the evidence, judge it, and keep the receipt in the object store."""
        from lab.receipt import Evidence, NodeRecord, judge

        watch = self._watch
        problems = [*watch.problems, *self._revert.problems]
        stored = self._stored(problems)
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
                services=self._lab.status().services,
                problems=tuple(problems),
            )
        )
        name = f"{RECEIPTS_PREFIX}/{watch.submission_id}-{int(record.at)}.json"
        try:
            self._lab.store.put(name, json.dumps(receipt.to_json(), indent=1).encode())
        except StoreError as error:
            why = f"the receipt could not be kept in the object store: {error.message}"
            timeline.tell("problem", None, why)
        return receipt

    def _stored(self, problems: list[str]) -> dict[str, dict[str, str]]:
        """What lies in the object store now of every checkpoint that was loaded: URI -> path -> SHA-256."""
        from lab.checkpoints import stored_manifest

        stored: dict[str, dict[str, str]] = {}
        attempts = [attempt for run in self._watch.history.runs for attempt in run.attempts]
        for uri in dict.fromkeys(load.uri for attempt in attempts for load in attempt.loads):
            try:
                manifest = stored_manifest(self._lab.store, uri)
            except StoreError as error:
                problems.append(f"{uri} could not be read back: {error.message}")
                continue
            if manifest:
                stored[uri] = dict(manifest)
        return stored
