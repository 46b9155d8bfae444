"""The controller's loop: looks at Ray, lets the engine decide, and acts on what is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lab.api.queue import Attempt
from lab.cluster.allocation import amounts
from lab.cluster.jobs import Job
from lab.cluster.queues import WORKLOAD
from lab.daemons.queue import resets
from lab.daemons.queue.controller import Controller, Draft
from lab.daemons.queue.effects import Effects, Outcome
from lab.daemons.queue.facade import cancel
from lab.daemons.queue.model import (
    DONE,
    HOLDING,
    LOST,
    RESETTING,
    RUNNING,
    STOPPING,
    SUBMITTING,
    UNSENT,
    Record,
)
from lab.daemons.queue.rayside import Cluster
from lab.daemons.queue.steward import States, Steward
from lab.daemons.queue.takes import covers, exceeded
from lab.daemons.queue.workers import Threads
from lab.errors import LabError

BUSY_SECONDS, CALM_SECONDS = 0.25, 1.0
"""Pauses between two steps: while something waits, starts or stops, and else."""

TIDY_SECONDS = 60.0
"""Time between two looks for what need not be kept any more."""

STORE_SECONDS, TAKEN_SECONDS, OTHERS_SECONDS, PACKAGES_SECONDS = 5.0, 3.0, 5.0, 60.0
"""Time between two looks at the store, at the allocation, at other jobs, and at packages nobody needs."""

SLACK_SECONDS = 1.0
"""Ray's clock and the controller's differ by less, as both run on one machine."""

MESSAGE = 1000
"""Characters of a job's last message that are kept."""


@dataclass(frozen=True)
class Seen:
    """One attempt as Ray showed it; `job` is None when Ray does not know it."""

    key: str
    number: int
    job: Job | None


def _is_foreign(job: Job, record: Record) -> bool:
    """Tell if a job with the id of an attempt is another one: submitted past the queues, or before it."""
    early = job.started_at is not None and job.started_at < record.created - SLACK_SECONDS
    return early or job.metadata.get(WORKLOAD) != record.key


class Reconciler:
    """Drives a controller. `step` is called by one thread."""

    def __init__(
        self,
        controller: Controller,
        ray: Cluster,
        workers: Threads,
        *,
        states: States = tuple,
        say: Callable[[str], None] = lambda _: None,
        began: float = 0.0,
    ) -> None:
        """`states` are those of every device of the nodes, which is read under the controller's lock.

        `began` is the time at which the queues began anew: jobs of those before them may go on.
        """
        self.controller, self._ray, self._say = controller, ray, say
        self._clock, self._began = controller.clock, began
        self.effects = Effects(ray, controller.packages, workers, self._clock, controller.wake.set, say)
        self._steward = Steward(controller, ray, states, say)
        self._looked: dict[str, float] = {}
        self._taken: Mapping[str, Mapping[str, float]] | None = None
        self._over: set[str] = set()
        """Submission ids of jobs that took more than they asked for when that was looked at last."""
        self._strangers: set[str] = set()
        with controller.lock:
            controller.away = {"ray": "not asked yet", "store": "not asked yet"}
            for key in controller.holding:
                attempt = controller.records[key].attempt
                if attempt is not None:
                    self.effects.restored(attempt)

    def step(self) -> float:
        """Look, decide, write, act; returns the seconds until the next step. Raises StateError."""
        if self._is_time("tidy", TIDY_SECONDS):
            self.controller.tidy()
        seen = self._observe()
        with self.controller.change() as draft:
            for outcome in self.effects.outcomes():
                self._take(draft, outcome)
            for observation in seen:
                self._judge(draft, observation)
            for key in sorted(self.controller.holding):
                resets.proceed(draft, self.controller, self.controller.records[key])
            self._steward.steer(draft)
            self._decide(draft)
        return self._act(seen)

    # Looking

    def _observe(self) -> list[Seen]:
        with self.controller.lock:
            attempts = [
                (key, self.controller.records[key].attempt) for key in sorted(self.controller.holding)
            ]
        observations = []
        try:
            for key, attempt in attempts:
                if attempt is not None and not attempt.ended:
                    observations.append(Seen(key, attempt.number, self._ray.find(attempt.submission_id)))
            if not observations:
                self._ray.ping()
        except LabError as error:
            self._away("ray", error.message)
            return []
        self._away("ray", "")
        return observations

    def _away(self, who: str, why: str) -> None:
        """Note that Ray or the store does not answer, or does again."""
        with self.controller.lock:
            before = self.controller.away
            if before.get(who, "") == why:
                return
            self.controller.away = {
                **{name: reason for name, reason in before.items() if name != who},
                **({who: why} if why else {}),
            }
        if why and not before.get(who):
            self._say(f"{who} does not answer, so nothing is admitted: {why}")
        elif not why:
            self._say(f"{who} answers")

    # Judging

    def _take(self, draft: Draft, outcome: Outcome) -> None:
        """Take up what came out of a task."""
        if outcome.kind == "store":
            self._away("store", outcome.value.message if isinstance(outcome.value, LabError) else "")
        elif self._steward.take(draft, outcome.kind, outcome.value):
            return
        elif isinstance(outcome.value, LabError):
            return  # Ray is away, which a step finds out by itself
        elif outcome.kind == "taken":
            self._compare(draft, outcome.value)
        elif outcome.kind == "others":
            self._sort_out(draft, outcome.value)
        elif outcome.kind == "refused":
            self._refused(draft, outcome.key, *outcome.value)

    def _refused(self, draft: Draft, key: str, number: int, why: str) -> None:
        """End a job whose attempt Ray does not take, unless it went on since."""
        record = self.controller.records.get(key)
        attempt = None if record is None else record.attempt
        if record is None or attempt is None or attempt.number != number:
            return
        if record.phase in (SUBMITTING, STOPPING):
            self._end(draft, record, attempt, UNSENT, why)
            draft.finish(key, "Failed", why)

    def _judge(self, draft: Draft, seen: Seen) -> None:
        """Draw the conclusions from what Ray shows of an attempt."""
        record, job = self.controller.records.get(seen.key), seen.job
        attempt = None if record is None else record.attempt
        if record is None or attempt is None or attempt.number != seen.number or record.phase not in HOLDING:
            return  # it went on, or was not written, while Ray was asked
        if job is None:
            self._unknown(draft, record, attempt)
            return
        if attempt.seen_at is None and _is_foreign(job, record):
            message = f"Ray has another job {attempt.submission_id}, which did not come from this one"
            self._end(draft, record, attempt, UNSENT, message)
            draft.finish(record.key, "Failed", message)
            return
        begun = draft.now if job.status == "RUNNING" and attempt.started_at is None else attempt.started_at
        known = replace(attempt, seen_at=attempt.seen_at or draft.now, started_at=begun)
        phase = RUNNING if record.phase == SUBMITTING else record.phase
        if (known, phase) != (attempt, record.phase):
            record = replace(record.with_attempt(known), phase=phase)
            draft.put(record)
        if job.final:
            self._ended(draft, record, known, job)
        elif phase == RUNNING:
            if job.status == "RUNNING":
                self._ready(draft, record, known)
            record = self.controller.records[record.key]
            resets.watch(draft, self.controller.engine.items[record.key], record, job.status, self._taken)

    def _unknown(self, draft: Draft, record: Record, attempt: Attempt) -> None:
        """Ray does not know an attempt: it was not submitted yet, never will be, or was forgotten."""
        if record.phase == SUBMITTING or not self.effects.certain(record, attempt):
            return
        stop = record.stop
        ended = LOST if attempt.seen_at is not None else UNSENT
        self._end(draft, record, attempt, ended, "Ray no longer knows it" if ended == LOST else "")
        if stop is not None and stop.to == RESETTING:
            return
        if stop is not None and stop.to == DONE:
            draft.finish(record.key, stop.outcome, stop.message)
        elif stop is None and ended == LOST and resets.ends_heads(record.job, attempt, self._clock()):
            draft.finish(record.key, "Failed", resets.ENDS_HEADS)
        else:
            draft.gone(record.key, resets.HEAD_LOST if stop is None else stop.message)

    def _ended(self, draft: Draft, record: Record, attempt: Attempt, job: Job) -> None:
        """Ray's job is over: the workload has finished, or gives back its quota as it was told to."""
        stop = record.stop
        message = job.message[-MESSAGE:].strip()
        attempt = replace(attempt, exit_code=resets.exit_code(job))
        against = resets.refusal(record.job, attempt, job.status)
        self._end(draft, record, attempt, job.status, message, retried=not against)
        cause = message or f"Ray says {job.status}"
        if stop is not None and stop.to == DONE:
            draft.finish(record.key, stop.outcome, stop.message)
        elif job.status == "SUCCEEDED":
            draft.finish(record.key, "Succeeded", "Job finished successfully")
        elif stop is not None and stop.to == RESETTING:
            return
        elif stop is not None and (job.status == "STOPPED" or self._by_us(attempt, stop.since, stop.grace)):
            draft.gone(record.key, stop.message)
        elif not against:
            if stop is not None:
                draft.gone(record.key, stop.message)
            else:
                draft.tell("Resetting", record.key, resets.FAILED_COMPONENT, cause)
        else:
            if record.job.retry is not None:
                cause = f"{cause}; no retry: {against}"
            draft.finish(record.key, "Failed", cause)

    def _by_us(self, attempt: Attempt, since: float, grace: float) -> bool:
        """Tell if an attempt failed because it was stopped, also by an earlier process of the controller."""
        return self.effects.asked(attempt) or self._clock() >= since + grace or attempt.started_at is None

    def _end(
        self,
        draft: Draft,
        record: Record,
        attempt: Attempt,
        ended: str,
        message: str,
        *,
        retried: bool = False,
    ) -> None:
        """Close an attempt, and leave the job between two attempts where another one follows it."""
        stop = record.stop
        evicted = stop.reason if stop is not None else ""
        done = replace(attempt, ended_at=draft.now, ended=ended, message=message, evicted=evicted)
        changed = record.with_attempt(done)
        if stop is not None and stop.to == RESETTING and ended != "SUCCEEDED":
            changed = resets.closed(record, done, stop.reason, charged=stop.charged)
        elif retried and stop is None:
            changed = resets.closed(record, done, resets.FAILED_COMPONENT, charged=True)
        if changed.job.takes:
            changed = replace(changed, job=replace(changed.job, takes={}))
        draft.put(changed)
        self.effects.over(attempt)
        self._over.discard(attempt.submission_id)

    def _ready(self, draft: Draft, record: Record, attempt: Attempt) -> None:
        """Record that a job runs with all that it was granted, which only waitForPodsReady asks for."""
        item = self.controller.engine.items[record.key]
        ready = True
        if self.controller.setup.config.pods_ready is not None:
            if self._taken is None:
                return
            ready = covers(self._taken.get(attempt.submission_id, {}), record.job, item)
        if item.ready != ready:
            draft.set_ready(record.key, ready)

    def _compare(self, draft: Draft, taken: Mapping[str, Mapping[str, float]]) -> None:
        """Note who takes more than was asked for; with `enforce` such a job is ended, at the second sight."""
        self._taken = taken
        setup, over = self.controller.setup, set()
        for key in sorted(self.controller.holding):
            record = self.controller.records[key]
            attempt = record.attempt
            if attempt is None or record.phase != RUNNING:
                continue
            name = attempt.submission_id
            item = self.controller.engine.items[key]
            excess = exceeded(taken.get(name, {}), record.job, item, setup, self.controller.resource)
            if excess:
                over.add(name)
            extra = excess if name in self._over else {}
            words = amounts(extra)
            if bool(extra) != bool(record.job.takes):
                record = replace(record, job=replace(record.job, takes=extra))
                draft.put(record)
                if extra:
                    draft.tell("TakesMoreThanAsked", key, "TakesMoreThanAsked", f"it takes {words}")
            if extra and record.job.enforce:
                cancel(
                    draft, record, "TakesMoreThanAsked", f"Ended: it takes {words}, more than it asked for"
                )
        self._over = over

    def _sort_out(self, draft: Draft, jobs: tuple[Job, ...]) -> None:
        """End what runs in Ray and should not: attempts that were given up; with queued_only, strangers."""
        self._strangers.intersection_update({job.submission_id for job in jobs})
        for job in jobs:
            record = self.controller.records.get(job.metadata.get(WORKLOAD, ""))
            ids = [attempt.submission_id for attempt in record.job.attempts] if record is not None else []
            if record is not None and job.submission_id in ids:
                if record.phase not in HOLDING or job.submission_id != ids[-1]:
                    self.effects.end(job.submission_id)
            elif self.controller.queued_only and not self._is_older(job):
                if job.submission_id not in self._strangers:
                    self._strangers.add(job.submission_id)
                    message = f"job {job.submission_id} was submitted past the queues"
                    draft.tell("Stopped", "", "QueuedOnly", message)
                self.effects.end(job.submission_id)

    def _is_older(self, job: Job) -> bool:
        """Tell if a job came through queues of which nothing is known any more."""
        return WORKLOAD in job.metadata and job.started_at is not None and job.started_at < self._began

    # Deciding

    def _decide(self, draft: Draft) -> None:
        engine = self.controller.engine
        due = engine.next_due()
        if due is not None and due <= draft.now:
            draft.note(draft.engine.due(draft.now))
        history = engine.history
        if history is not None and history.next_sample(draft.now) <= draft.now:
            draft.engine.sample(draft.now)
        if engine.stirred and not self.controller.away and self._steward.knows_nodes:
            draft.note(draft.engine.settle(draft.now))

    # Acting

    def _act(self, seen: list[Seen]) -> float:
        """Begin what the phases ask for, as Ray showed it in this step."""
        controller = self.controller
        with controller.lock:
            unfinal = {
                observation.key: observation
                for observation in seen
                if observation.job is None or not observation.job.final
            }
            for key, observation in unfinal.items():
                record = controller.records.get(key)
                attempt = None if record is None else record.attempt
                if record is None or attempt is None or attempt.number != observation.number:
                    continue
                item = controller.engine.items[key]
                if record.phase == SUBMITTING and observation.job is None:
                    self.effects.submit(record, attempt, item)
                elif record.phase == STOPPING and record.stop is not None and observation.job is not None:
                    self.effects.stop(record, attempt, record.stop)
            phases = {key: controller.records[key].phase for key in controller.holding}
            fresh = [key for key, phase in phases.items() if key not in unfinal and phase != RESETTING]
            if fresh and not controller.away:
                controller.wake.set()  # admitted just now: Ray is asked about them at once
            moving = any(phase not in (RUNNING, RESETTING) for phase in phases.values())
            sick = self._steward.sick
        self._background(RUNNING in phases.values())
        return BUSY_SECONDS if moving or controller.waiting or sick else CALM_SECONDS

    def _background(self, running: bool) -> None:
        ray, away = self._ray, "ray" in self.controller.away
        looks: tuple[tuple[str, float, Callable[[], object], bool], ...] = (
            *(() if away else self._steward.tasks()),
            ("store", STORE_SECONDS, ray.ping_store, True),
            ("taken", TAKEN_SECONDS, ray.taken, running and not away),
            ("others", OTHERS_SECONDS, ray.unfinished, not away),
            ("packages", PACKAGES_SECONDS, self._sweep, True),
        )
        for kind, every, task, wanted in looks:
            if wanted and self._is_time(kind, every):
                self.effects.background(kind, task)

    def _is_time(self, kind: str, every: float) -> bool:
        """Tell if something is to be done again, and note that it is; a clock that was set delays nothing."""
        now = self._clock()
        if 0 <= now - self._looked.get(kind, float("-inf")) < every:
            return False
        self._looked[kind] = now
        return True

    def _sweep(self) -> None:
        with self.controller.lock:
            records = self.controller.records.values()
            needed = {record.job.package for record in records if record.phase != DONE}
        self.controller.packages.sweep(needed)
