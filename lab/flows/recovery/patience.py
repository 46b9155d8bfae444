"""How long to wait for a job: as long as it gets on, however slow the machine is; or until a given limit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from lab.errors import LabError
from lab.evidence.ledger import Run, RunAttempt
from lab.flows.recovery.watch import Watch, progress_name
from lab.runtime.logtail import last_lines, listing

START_SECONDS = 300.0
"""How long nothing may move while processes start and import: on 2 idle cores that takes 20 s."""

EPOCH_SECONDS = 900.0
"""How long nothing may move in an epoch of which nobody knows how long it takes."""

EPOCHS = 5
"""How often the longest epoch so far may pass without a sign, where that is more than START_SECONDS."""

BOUND_SECONDS = 3600.0
"""How long a job may show signs of life without getting any further: with no epoch that was not there."""

LOG_SECONDS = 15.0
"""Pause between two looks at the job's own output."""

LINES = 10
"""Last lines of that output that an error shows."""


@dataclass(frozen=True)
class Phase:
    """What a job is at, in words, and for how many seconds nothing may move then."""

    text: str
    stall: float


class Patience:
    """Says when a wait for a job is over. `look` is called after each poll of the watch.

    Signs of life are: its status, what its ledger gets, the cluster's nodes, and the growth of its output.
    With a `limit` (seconds) that alone counts.
    """

    def __init__(self, watch: Watch, clock: Callable[[], float], limit: float | None = None) -> None:
        self._watch, self._clock, self._limit = watch, clock, limit
        self._begin = self._moved = self._further = clock()
        self._signs: object = None
        self._reached: tuple[float, ...] = ()
        self._log, self._log_at = 0, 0.0

    def look(self) -> None:
        """Note what has moved since the last look."""
        now, watch = self._clock(), self._watch
        if self._limit is None and now - self._log_at >= LOG_SECONDS:
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

    def rest(self) -> None:
        """Let what has passed so far count for nothing: it was waited for something else than the job."""
        self._moved = self._further = self._clock()

    @property
    def waited(self) -> float:
        """Seconds since the wait began."""
        return self._clock() - self._begin

    @property
    def over(self) -> str:
        """Why there is nothing more to wait for; empty as long as there is."""
        if self._limit is not None:
            return f"{self._limit:g} s have passed" if self.waited >= self._limit else ""
        still, same = self._clock() - self._moved, self._clock() - self._further
        if still >= self.phase.stall:
            return f"nothing has moved for {still:.0f} s"
        return f"it has got no further for {same:.0f} s" if same >= BOUND_SECONDS else ""

    @property
    def phase(self) -> Phase:
        """What the job is at."""
        return phase(self._watch)

    def told(self) -> str:
        """What the job is at, and the end of its output: for the message of whoever gives up."""
        lines = last_lines(self._output(), LINES)
        return f"{self.phase.text}. {listing(lines)}"

    def _output(self) -> str:
        with contextlib.suppress(LabError):
            return self._watch.log()
        return ""


def phase(watch: Watch) -> Phase:
    """What a watched job is at, by Ray and its ledger."""
    job, run = watch.job, watch.run
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
    """How far a run has come: the epoch, and where it counts none, its checkpoints and reports."""
    found = [attempt.furthest for attempt in run.attempts if attempt.furthest is not None]
    if found and not run.progress_repeats:
        return float(max(found))
    return float(len(run.checkpoints) or sum(len(attempt.reports) for attempt in run.attempts))
