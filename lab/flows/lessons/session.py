"""A lesson in its notebook: names for jobs, waiting for them, measured numbers, the self-check."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lab.cluster.jobs import Job
from lab.errors import ClusterError, JobError, LabError, NotFoundError, UsageError
from lab.flows.lessons.catalogue import find_lesson
from lab.flows.lessons.evidence import gather, write_records
from lab.flows.lessons.model import Lesson, LessonResult, job_prefix
from lab.flows.lessons.results import judge, keep_in_store, not_yet, table
from lab.host.clock import POLL_SECONDS, WALL, Clock, settle
from lab.host.naming import about

if TYPE_CHECKING:
    from lab.lab import Lab

TAIL = 15
"""Lines of a log that an error quotes."""

KNOWN_SECONDS = 20.0
"""Time in which a job appears after `ray job submit --no-wait` in the cell before."""


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
        clock: Clock = WALL,
    ) -> None:
        """Begin a lesson. Raises NotFoundError for a number that has none, LabDownError, StoreError."""
        self.lesson: Lesson = find_lesson(number)
        if lab is None:
            from lab import Lab as OpenLab

            lab = OpenLab()
        self.lab, self._say, self._clock = lab, say, clock
        self.began_at = clock()
        """Seconds since the epoch."""
        self._records: dict[str, object] = {}
        self._named: set[str] = set()
        write_records(self.lab.store, number, self.began_at, {})
        say(f"Lesson {number}: {self.lesson.title} (lab {self.lab.name})")

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
            self._clock.sleep(POLL_SECONDS)

    def wait(self, job: str, seconds: float = 300.0) -> Job:
        """Print a job's log as it grows, until the job has ended; returns the job.

        Raises JobError with the last lines when it did not succeed, WaitTimeoutError after `seconds`.
        """
        seen: deque[Job] = deque(maxlen=1)
        last: deque[str] = deque(maxlen=TAIL)
        lines = self.lab.jobs.follow(
            job, seen.append, timeout=seconds, appears_within=KNOWN_SECONDS, on_outage=self._say
        )
        for line in lines:
            self._say(line)
            last.append(line)
        ended = seen[-1]
        if ended.status != "SUCCEEDED":
            raise JobError(
                f"job {job} ended {ended.status}: {ended.message}{_tail(last)}",
                "correct it, then run the notebook from its first cell: an id can be used once",
            )
        return ended

    def why(self, job: str) -> str:
        """The reason why a job waits, or an empty text. Raises NotFoundError, ClusterError."""
        self._find(job)
        waiting = self.lab.waiting(job)
        if waiting is None:
            return ""
        return f"{waiting.reason}; held by {waiting.held_by}" if waiting.held_by else waiting.reason

    def record(self, name: str, value: object) -> None:
        """Keep a measured value (numbers, text, lists and dicts of them) in the store, under `name`.

        Raises UsageError for a value that is no JSON, StoreError.
        """
        records = {**self._records, name: value}
        try:
            write_records(self.lab.store, self.lesson.number, self.began_at, records)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{name}: {value!r} cannot be kept as JSON: {error}") from error
        self._records = records

    def check(self) -> LessonResult:
        """Ask every check of the lesson, print the answers, and keep the result in the store.

        What only the host can ask, once the lab is down, is told and stays open.
        """
        evidence = gather(self.lab, self.lesson)
        more = not_yet(self.lesson, evidence)
        result = judge(self.lesson, evidence, at=self._clock(), more=more)
        keep_in_store(self.lab.store, result)
        for line in table(self.lesson, result):
            self._say(self._about(line))
        return result

    def on_host(self, command: str) -> None:
        """Print a command of labctl to type on the host, such as `jobs`, with the lab that it is about."""
        self._say(f"Type this on the host, now:\n{self._about(f'labctl {command}')}")

    def _about(self, text: str) -> str:
        return about(text, self.lab.name)

    def _find(self, job: str) -> Job:
        """The job, which may have been submitted only a moment ago. Raises NotFoundError, ClusterError."""

        def look() -> Job | LabError:
            try:
                return self.lab.jobs.get(job)
            except (NotFoundError, ClusterError) as error:  # a busy machine's dashboard can be silent, too
                return error

        answer = settle(look, lambda seen: isinstance(seen, Job), timeout=KNOWN_SECONDS, clock=self._clock)
        if isinstance(answer, LabError):
            raise answer
        return answer


def _tail(lines: Iterable[str]) -> str:
    text = "\n".join(lines)
    return f". Its last lines:\n{text}" if text else ""
