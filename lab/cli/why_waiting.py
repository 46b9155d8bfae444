"""Reasons why a followed job waits, said once and again when they change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli import format
from lab.errors import LabError

if TYPE_CHECKING:
    from lab.cli.output import Output
    from lab.cluster.allocation import Waiting
    from lab.cluster.jobs import Job
    from lab.host.clock import Clock
    from lab.lab import Lab

SILENT_SECONDS = 3.0
"""Time without output before the first poll, and least time between two."""

MAX_SECONDS = 30.0
"""Maximum back-off between polls of a silent running job."""

HOPE = "it waits until a node that can hold it joins; cancel it: `labctl jobs stop {job}`"


class Waits:
    """Polls why a followed job waits, when it has been silent for a while."""

    def __init__(self, out: Output, lab: Lab, clock: Clock, *, said: str = "") -> None:
        """`said` is the reason that its submission gave, or empty: it is not repeated."""
        self._out, self._lab, self._clock = out, lab, clock
        self._since = clock()
        self._pause = SILENT_SECONDS
        self._known = bool(said)
        self._last: object = None

    def heard(self) -> None:
        """Note that the job printed a line."""
        self._since = self._clock()

    def poll(self, job: Job) -> None:
        """Say on stderr what has changed; `job` is its state now."""
        if job.final or self._clock() < self._since + self._pause:
            return
        try:
            verdict = self._lab.waiting_jobs().get(job.submission_id)
        except LabError:  # a dashboard that is silent for a moment
            return
        finally:
            self._since = self._clock()
        if verdict is not None and verdict.kind == "starting":
            return
        runs = verdict is None and job.status == "RUNNING"
        self._pause = min(2 * self._pause, MAX_SECONDS) if runs else SILENT_SECONDS
        before, self._last = self._last, _essence(verdict)
        if self._last == before:
            return
        if verdict is None:
            self._out.note(f"job {job.submission_id} has what it waited for")
        elif verdict.kind == "infeasible":
            if not self._known:
                self._out.warn(format.waits(verdict), HOPE.format(job=job.submission_id))
            self._known = False
        elif verdict.kind == "others":
            self._out.note(format.waits(verdict))


def _essence(item: Waiting | None) -> object:
    """Part of a reason whose change is worth a sentence: what is short and who holds it."""
    if item is None:
        return None
    holders = frozenset((h.job, h.service, h.what, tuple(sorted(h.resources.items()))) for h in item.holders)
    return item.kind, item.what, item.short, holders
