"""The waiting of a chaos run: for a time, for a training that goes on in a lab that is whole, for the end."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import pairwise

from lab.errors import LabDownError, WaitTimeoutError
from lab.lab import Lab
from lab.ledger import epochs_of
from lab.recovery.watch import POLL_SECONDS, Watch, follow_to_end

STEADY_SECONDS = 300.0
"""How long training, and every service, gets to be well again after a fault, at least."""

STEADY_EPOCHS = 3
"""It gets this many times the longest epoch, where that is more."""

STALL_SECONDS = 900.0
"""A job of which nothing has been heard for so long is no longer waited for."""

LAST_REPORTS = 20
"""From so many of an attempt's reports its pace is taken."""


class Waiting:
    """Waits beside a watched job. Every wait ends with the job, too; LabDownError when the lab is stopped."""

    def __init__(
        self, lab: Lab, watch: Watch, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._lab, self._watch, self._clock, self._sleep = lab, watch, clock, sleep

    def until(self, at: float) -> None:
        """Wait until then."""
        while self._clock() < at and not self._watch.over:
            self._look()
            self._sleep(min(POLL_SECONDS, max(0.0, at - self._clock())))

    def steady(self, after: float) -> str:
        """Wait until the job has reported progress after `after` and every service is well.

        Returns why that did not come about in time; empty when it did, or the job has ended.
        """
        begin = self._clock()
        while True:
            self._look()
            why = "" if self._watch.over else self._unsteady(after)
            if not why:
                return ""
            if self._clock() - begin >= self._patience():
                return f"{why} for {self._clock() - begin:.0f} s"
            self._sleep(POLL_SECONDS)

    def to_the_end(self) -> str:
        """Wait until the job has ended, and its ledger is complete; why it was given up, if so."""
        heard, since = -1, self._clock()

        def still_heard() -> None:
            nonlocal heard, since
            self._refuse_stopped()
            if len(self._watch.events) != heard:
                heard, since = len(self._watch.events), self._clock()
            if self._clock() - since >= max(STALL_SECONDS, self._patience()):
                raise WaitTimeoutError(f"nothing was heard of the job for {self._clock() - since:.0f} s")

        try:
            follow_to_end(self._watch, self._sleep, still_heard)
        except WaitTimeoutError as error:
            return error.message
        return ""

    def pace(self) -> float | None:
        """Seconds from one report of the attempt that trains to the next; None before there are two."""
        gaps = self._gaps()
        return statistics.median(gaps[-LAST_REPORTS:]) if gaps else None

    def first(self) -> float | None:
        """Seconds that the newest attempt with a report took for its first one; None before there is one."""
        attempts = self._watch.run.attempts if self._watch.run else ()
        attempt = next((a for a in reversed(attempts) if a.reports), None)
        began = (attempt.training_started_at or attempt.started_at) if attempt else None
        return attempt.reports[0].at - began if attempt and began is not None else None

    def left(self) -> float | None:
        """About how many seconds the job will still train; None where that cannot be told."""
        run, pace = self._watch.run, self.pace()
        last = run.last if run else None
        if run is None or last is None or last.progress is None or pace is None:
            return None
        epochs = epochs_of(run)
        if epochs is None or epochs.final is None or run.progress_key != epochs.key:
            return None
        return max(0.0, epochs.final - last.progress) / run.stride * pace

    def _look(self) -> None:
        self._watch.poll()
        self._refuse_stopped()

    def _refuse_stopped(self) -> None:
        if self._watch.problems and not self._lab.status().up:
            raise LabDownError(
                f"lab {self._lab.name} was stopped while chaos went on", "start it again: labctl up"
            )

    def _unsteady(self, after: float) -> str:
        run, attempt = self._watch.run, self._watch.live_attempt
        if self._watch.problems:
            return self._watch.problems[0]
        if run is None or attempt is None or not attempt.reports or attempt.reports[-1].at <= after:
            return "training has not gone on"
        if not run.checkpoints:
            return "no checkpoint was saved"
        ill = [s.service for s in self._lab.status().services if s.state.value != "healthy"]
        return f"{', '.join(ill)} did not get healthy" if ill else ""

    def _patience(self) -> float:
        return max(STEADY_SECONDS, STEADY_EPOCHS * max(self._gaps(), default=0.0))

    def _gaps(self) -> list[float]:
        """Seconds between the reports of the newest attempt that has some."""
        attempts = self._watch.run.attempts if self._watch.run else ()
        reports = next((a.reports for a in reversed(attempts) if len(a.reports) > 1), ())
        return [b.at - a.at for a, b in pairwise(reports)]
