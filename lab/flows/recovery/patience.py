"""Decides how long to wait for a job: as long as it makes progress, on however slow a machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from lab.cluster.jobs import Job
from lab.cluster.outage import LOST_SECONDS
from lab.errors import LabError, WaitTimeoutError
from lab.evidence.ledger import Run, RunAttempt
from lab.flows.recovery.watch import POLL_SECONDS, Watch, progress_name
from lab.runtime.logtail import last_lines, listing

START_SECONDS = 300.0
"""Longest silence while processes start and import: on 2 idle cores that takes 20 s."""

EPOCH_SECONDS = 900.0
"""Longest silence in an epoch of which nobody knows how long it takes."""

EPOCHS = 5
"""Longest silence in epochs as long as the longest so far, where that is more than START_SECONDS."""

BOUND_SECONDS = 3600.0
"""Longest time that a job may show signs of life without an epoch that it had not reached before."""

LOG_SECONDS = 15.0
"""Between two reads of the job's own output."""

LINES = 10
"""Last lines of that output that an error shows."""


@dataclass(frozen=True)
class Phase:
    """The phase that a job is in, in words, and the longest silence allowed in it, in seconds."""

    text: str
    stall: float


class Patience:
    """Says when a wait for a job is over. It counts from its construction, and observes each poll.

    Signs of life are: its status, new events in its ledger, the cluster's nodes, and growth of its output.
    A `limit` of the whole wait, and a longest `silence` (both in seconds), only shorten it.
    """

    def __init__(self, watch: Watch, limit: float = inf, silence: float = inf) -> None:
        self._watch, self._clock, self._limit, self._silence = watch, watch.clock, limit, silence
        self._begin = self._moved = self._further = self._clock()
        self._signs: object = None
        self._reached: tuple[float, ...] = ()
        self._log, self._log_at = 0, 0.0

    def polls(self) -> Iterator[None]:
        """Poll the watch, with a turn of the caller's loop after each time, until the wait is over."""
        while True:
            self._watch.poll()
            self.observe()
            yield
            if self.over:
                return
            self._clock.sleep(POLL_SECONDS)

    def wait_for_end(self, look: Callable[[], None] = lambda: None) -> Job | None:
        """Poll until the job has ended and its ledger is complete; None when the wait is over before that.

        `look` is called after every poll; raising is how it ends the wait before its time.
        """
        for _ in self.polls():
            look()
            if self._watch.over:
                self._watch.read_the_rest(look)
                return self._watch.job
        return None

    def observe(self) -> None:
        """Note what has changed since the last time."""
        now, watch = self._clock(), self._watch
        if now - self._log_at >= LOG_SECONDS:
            self._log, self._log_at = len(self._output()), now
        nodes = tuple(sorted(node.node_id for node in watch.nodes if node.alive))
        status = watch.job.status if watch.job else ""
        signs = (status, len(watch.events), nodes, self._log)
        if signs != self._signs:
            self._signs, self._moved = signs, now
        reached = tuple(_furthest(run) for run in watch.history.runs)
        if reached != self._reached:
            further = len(reached) != len(self._reached) or any(
                new > old for new, old in zip(reached, self._reached, strict=True)
            )
            self._reached = reached
            self._further = now if further else self._further

    def restart(self) -> None:
        """Start the silence anew: what was waited for until now was not the job."""
        self._moved = self._further = self._clock()

    @property
    def waited(self) -> float:
        """Seconds since the wait began."""
        return self._clock() - self._begin

    @property
    def over(self) -> str:
        """Reason to wait no longer; empty as long as there is none."""
        if self.waited >= self._limit:
            return f"{self._limit:g} s have passed"
        still, same = self._clock() - self._moved, self._clock() - self._further
        if min(self._watch.outage.seconds, still) >= LOST_SECONDS:
            return f"the head has been down for {self._watch.outage.seconds:.0f} s"
        if still >= min(self.phase.stall, self._silence):
            return f"nothing has moved for {still:.0f} s"
        return f"it has made no progress for {same:.0f} s" if same >= BOUND_SECONDS else ""

    @property
    def phase(self) -> Phase:
        """The phase of the job, by Ray and its ledger."""
        job, run = self._watch.job, self._watch.run
        if job is None:
            return Phase("Ray has not said how it stands", START_SECONDS)
        if job.status == "PENDING":
            return Phase("its entrypoint has not started", START_SECONDS)
        if run is None:
            return Phase("its entrypoint runs, and Ray Train has not begun", START_SECONDS)
        if run.finished_at is not None:
            return Phase("its training is over, and its entrypoint goes on", START_SECONDS)
        if not run.attempts:
            return Phase("Ray Train runs, and has begun no attempt", START_SECONDS)
        return _attempt(run, run.attempts[-1])

    def describe(self) -> str:
        """Reason, phase of the job, and end of its output: for the message of whoever gives up."""
        lines = last_lines(self._output(), LINES)
        return f"{self.over}: {self.phase.text}. {listing(lines)}"

    def _output(self) -> str:
        with contextlib.suppress(LabError):
            return self._watch.log()
        return ""


def _attempt(run: Run, attempt: RunAttempt) -> Phase:
    number = f"attempt {attempt.number}"
    if attempt.failure_detected_at is not None or attempt.ended_at is not None:
        return Phase(f"{number} has ended, and no other has begun", START_SECONDS)
    if not attempt.nodes:
        return Phase(f"{number} waits for the processes of its ranks", START_SECONDS)
    longest = _longest(run)
    patient = max(START_SECONDS, EPOCHS * longest) if longest else EPOCH_SECONDS
    if attempt.reports:
        at = attempt.reports[-1].progress
        last = progress_name(run) if at is None else f"{progress_name(run)} {at:g}"
        pace = f"; one took up to {longest:.0f} s" if longest else ""
        return Phase(f"{number} has reported {last}, and nothing after it{pace}", patient)
    if attempt.ready_at and not attempt.function_started_at:
        return Phase(f"the ranks of {number} import what the script needs", patient)
    return Phase(f"{number} is in its first {progress_name(run)}", patient)


def _longest(run: Run) -> float:
    """Seconds of the longest epoch that is known; 0 where none is."""
    gaps = (b.at - a.at for attempt in run.attempts for a, b in pairwise(attempt.reports))
    return max(gaps, default=0.0)


def _furthest(run: Run) -> float:
    """The furthest epoch of a run, and where it counts none, the number of its checkpoints or reports."""
    reached = [attempt.furthest for attempt in run.attempts if attempt.furthest is not None]
    if reached and not run.progress_repeats:
        return float(max(reached))
    return float(len(run.checkpoints) or sum(len(attempt.reports) for attempt in run.attempts))


def follow_to_end(watch: Watch) -> None:
    """Poll until the watched job has ended and its ledger is complete. Raises WaitTimeoutError."""
    patience = Patience(watch)
    if patience.wait_for_end() is None:
        raise WaitTimeoutError(
            f"job {watch.submission_id} has not ended after {patience.waited:.0f} s; {patience.describe()}",
            f"labctl jobs logs {watch.submission_id}",
        )
