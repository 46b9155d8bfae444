"""The waiting of a chaos run: for a time, for a training that goes on in a lab that is whole, for the end."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import pairwise

from lab.errors import LabDownError, WaitTimeoutError
from lab.evidence.ledger import epochs_of
from lab.flows.recovery.patience import Patience
from lab.flows.recovery.watch import POLL_SECONDS, Watch, follow_to_end
from lab.lab import Lab

STEADY_SECONDS = 300.0
"""How long every service gets to be well again once training goes on after a fault."""

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

        Returns why that did not come about, although the job was waited for as long as it got on; empty when
        it did, or the job has ended.
        """
        patience, trains_since = Patience(self._watch, self._clock), None
        while True:
            self._look()
            patience.look()
            if self._watch.over:
                return ""
            why, now = self._untrained(after), self._clock()
            if why:
                trains_since = None
                if patience.over:
                    return f"{why} for {patience.waited:.0f} s; {patience.over}: {patience.phase.text}"
            else:
                trains_since = now if trains_since is None else trains_since
                ill = self._ill()
                if not ill:
                    return ""
                if now - trains_since >= STEADY_SECONDS:
                    return f"{ill} for {now - trains_since:.0f} s"
            self._sleep(POLL_SECONDS)

    def to_the_end(self) -> str:
        """Wait until the job has ended, and its ledger is complete; why it was given up, if so."""
        patience = Patience(self._watch, self._clock)

        def still_heard() -> None:
            self._refuse_stopped()
            patience.look()
            if patience.over:
                raise WaitTimeoutError(f"the job does not get on, {patience.over}: {patience.phase.text}")

        try:
            follow_to_end(self._watch, self._sleep, still_heard)
        except WaitTimeoutError as error:
            return error.message
        return ""

    def pace(self) -> float | None:
        """Seconds from one report of the attempt that trains to the next; None before there are two."""
        gaps = self._gaps()
        return statistics.median(gaps[-LAST_REPORTS:]) if gaps else None

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

    def _untrained(self, after: float) -> str:
        """Why training has not gone on after `after`; empty when it has."""
        run, attempt = self._watch.run, self._watch.live_attempt
        if self._watch.problems:
            return self._watch.problems[0]
        if run is None or attempt is None or not attempt.reports or attempt.reports[-1].at <= after:
            return "training has not gone on"
        return "" if run.checkpoints else "no checkpoint was saved"

    def _ill(self) -> str:
        """Which services are not well; empty when all are."""
        ill = [s.service for s in self._lab.status().services if s.state.value != "healthy"]
        return f"{', '.join(ill)} did not get healthy" if ill else ""

    def _gaps(self) -> list[float]:
        """Seconds between the reports of the newest attempt that has some."""
        attempts = self._watch.run.attempts if self._watch.run else ()
        reports = next((a.reports for a in reversed(attempts) if len(a.reports) > 1), ())
        return [b.at - a.at for a, b in pairwise(reports)]
