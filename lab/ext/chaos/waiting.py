"""Waits of a chaos run: for a time, for a training that goes on in a lab that is whole, for the end."""

from __future__ import annotations

import statistics
from itertools import pairwise

from lab.evidence.ledger import epochs_of
from lab.flows.recovery import Patience, Watch
from lab.host.clock import settle

STEADY_SECONDS = 300.0
"""Deadline for every service to be healthy again once training goes on after a fault."""

LAST_REPORTS = 20
"""Reports of an attempt, the last ones, from which its pace is taken."""


class JobWaits:
    """Waits beside a watched job. Every wait ends with the job, too; LabDownError with the lab."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._clock = watch, watch.clock

    def until(self, at: float) -> None:
        """Wait until this time, in seconds since the epoch."""
        settle(self._watch.poll, lambda _: self._watch.over, timeout=at - self._clock(), clock=self._clock)

    def steady(self, after: float) -> str:
        """Wait until the job has reported progress after `after` and every service is well.

        Returns why that did not come about, although the job was waited for as long as it made progress;
        empty when it did, or the job has ended.
        """
        patience, trains_since, why = Patience(self._watch), None, ""
        for _ in patience.polls():
            if self._watch.over:
                return ""
            why, now = self._untrained(after), self._clock()
            if why:
                trains_since = None
                continue
            trains_since = now if trains_since is None else trains_since
            ill = self._ill()
            if not ill:
                return ""
            if now - trains_since >= STEADY_SECONDS:
                return f"{ill} for {now - trains_since:.0f} s"
        return f"{why or ill} for {patience.waited:.0f} s; {patience.over}: {patience.phase.text}"

    def to_the_end(self) -> str:
        """Wait until the job has ended, and its ledger is complete; why it was given up, if so."""
        patience = Patience(self._watch)
        if patience.wait_for_end() is not None:
            return ""
        return f"the job makes no progress, {patience.over}: {patience.phase.text}"

    def pace(self) -> float | None:
        """Seconds between reports of the newest attempt that has some; None before there are two."""
        attempts = self._watch.run.attempts if self._watch.run else ()
        reports = next((a.reports for a in reversed(attempts) if len(a.reports) > 1), ())
        gaps = [b.at - a.at for a, b in pairwise(reports)]
        return statistics.median(gaps[-LAST_REPORTS:]) if gaps else None

    def left(self) -> float | None:
        """Estimate of the seconds that the job will still train; None where there is none."""
        run, pace = self._watch.run, self.pace()
        last = run.last if run else None
        if run is None or last is None or last.progress is None or pace is None:
            return None
        epochs = epochs_of(run)
        if epochs is None or epochs.final is None or run.progress_key != epochs.key:
            return None
        return max(0.0, epochs.final - last.progress) / run.stride * pace

    def _untrained(self, after: float) -> str:
        """Reason to think that training has not gone on after `after`; empty when it has."""
        run, attempt = self._watch.run, self._watch.live_attempt
        if self._watch.problems:
            return self._watch.problems[0]
        if run is None or attempt is None or not attempt.reports or attempt.reports[-1].at <= after:
            return "training has not gone on"
        return "" if run.checkpoints else "no checkpoint was saved"

    def _ill(self) -> str:
        """The services that are not healthy, in words; empty when all are."""
        ill = [s.service for s in self._watch.lab.status().services if s.state.value != "healthy"]
        return f"{', '.join(ill)} did not become healthy" if ill else ""
