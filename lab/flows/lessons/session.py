"""A lesson as its notebook has it: names for jobs, waiting for them, measured numbers, the self-check."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lab.errors import ClusterError, JobError, NotFoundError, UsageError, WaitTimeoutError
from lab.flows.lessons.catalogue import find_lesson
from lab.flows.lessons.evidence import gather, read_records, write_records
from lab.flows.lessons.model import Lesson, LessonResult, job_prefix
from lab.flows.lessons.results import judge, keep_in_store, not_yet, table

if TYPE_CHECKING:
    from lab.cluster.jobs import Job
    from lab.lab import Lab

POLL_SECONDS = 0.5
SILENCE_SECONDS = 30.0
TAIL = 15
"""Lines of a log that an error quotes."""

KNOWN_SECONDS = 20.0
"""How long a job may take to appear after `ray job submit --no-wait` in the cell before."""


class Session:
    """One lesson, begun now, on the lab that this notebook runs in.

    What an earlier session of the same lesson measured is forgotten; its jobs no longer count.
    """

    def __init__(
        self,
        number: int,
        lab: Lab | None = None,
        *,
        say: Callable[[str], None] = print,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Raises NotFoundError for a lesson there is none of, LabDownError, StoreError."""
        self.lesson: Lesson = find_lesson(number)
        self._given, self._say, self._clock, self._sleep = lab, say, clock, sleep
        self.began_at = clock()
        """Seconds since the epoch."""
        self._records: dict[str, Any] = {}
        self._named: set[str] = set()
        write_records(self.lab.store, number, self.began_at, {})
        say(f"Lesson {number}: {self.lesson.title} (lab {self.lab.name})")

    @cached_property
    def lab(self) -> Lab:
        """The lab."""
        if self._given is not None:
            return self._given
        from lab import Lab

        return Lab()

    def new_job(self, part: str) -> str:
        """A new submission id for one part of the lesson; nothing is submitted.

        `part` is lower-case letters, digits and hyphens. Raises UsageError.
        """
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,39}", part):
            raise UsageError(
                f"{part!r}: not a name for a part of a lesson", "use lower-case letters, digits and hyphens"
            )
        while True:
            stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self._clock()))
            name = f"{job_prefix(self.lesson.number)}{part}-{stamp}"
            if name not in self._named:
                self._named.add(name)
                return name
            self._sleep(POLL_SECONDS)

    def wait(self, job: str, seconds: float = 300.0) -> Job:
        """Print a job's log as it grows, until the job has ended; returns the job.

        Raises JobError with the last lines when it did not succeed, WaitTimeoutError after `seconds`.
        """
        begin, shown = self._clock(), 0
        while True:
            found = self._find(job, begin)
            text = self._log(job)
            complete = len(text) if found.final else text.rfind("\n") + 1
            for line in text[shown:complete].splitlines():
                self._say(line)
            shown = max(shown, complete)
            if found.final:
                break
            if self._clock() - begin >= seconds:
                raise WaitTimeoutError(
                    f"job {job} is still {found.status} after {seconds:g} s{_last(text)}",
                    f"see what it waits for: `labctl job show {job}`; stop it: `labctl job stop {job}`",
                )
            self._sleep(POLL_SECONDS)
        if found.status != "SUCCEEDED":
            raise JobError(
                f"job {job} ended {found.status}: {found.message}{_last(text)}",
                "correct it, then run the notebook from its first cell: an id can be used once",
            )
        return found

    def why(self, job: str) -> str:
        """Why a job waits, in a sentence; empty when it does not wait. Raises NotFoundError, ClusterError."""
        self._find(job, self._clock())
        waiting = self.lab.waiting(job)
        if waiting is None:
            return ""
        return f"{waiting.reason}; held by {waiting.held_by}" if waiting.held_by else waiting.reason

    def record(self, name: str, value: Any) -> None:
        """Keep a measured value (numbers, text, lists and dicts of them) in the store, under `name`.

        Raises UsageError for a value that is no JSON, StoreError.
        """
        records = {**self._records, name: value}
        try:
            write_records(self.lab.store, self.lesson.number, self.began_at, records)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{name}: {value!r} cannot be kept as JSON: {error}") from error
        self._records = records

    def recorded(self, name: str) -> Any:
        """What was kept under `name` in this lesson, or None."""
        return read_records(self.lab.store, self.lesson.number)[1].get(name)

    def check(self) -> LessonResult:
        """Ask every check of the lesson, print the answers, and keep the result in the store.

        What only the host can ask, once the lab is down, is told and stays open.
        """
        evidence = gather(self.lab, self.lesson)
        more = not_yet(self.lesson, evidence)
        result = judge(self.lesson, evidence, at=self._clock(), more=more)
        keep_in_store(self.lab.store, result)
        for line in table(self.lesson, result):
            self._say(line)
        return result

    def _log(self, job: str) -> str:
        try:
            return self.lab.jobs.logs(job)
        except ClusterError:  # asked again with the next look
            return ""

    def _find(self, job: str, begin: float) -> Job:
        """The job, which may have been submitted only a moment ago."""
        since = self._clock()
        while True:
            try:
                return self.lab.jobs.get(job)
            except NotFoundError:
                if self._clock() - begin >= KNOWN_SECONDS:
                    raise
            except ClusterError:  # the dashboard of a busy machine can be silent for a while
                if self._clock() - since >= SILENCE_SECONDS:
                    raise
            self._sleep(POLL_SECONDS)


def _last(text: str) -> str:
    lines = text.splitlines()[-TAIL:]
    return ". Its last lines:\n" + "\n".join(lines) if lines else ""
