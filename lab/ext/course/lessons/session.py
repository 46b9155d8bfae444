"""A lesson in its notebook: names for jobs, waiting for them, measured numbers, the self-check."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from lab.cluster.jobs import Job
from lab.cluster.outage import LOST_SECONDS, Outage
from lab.cluster.placement import why_waits
from lab.errors import ClusterError, JobError, LabError, NotFoundError, RefusedError, UsageError
from lab.ext.course.lessons.catalogue import find_lesson
from lab.ext.course.lessons.evidence import (
    ANSWERS,
    gather,
    queued_demand,
    read_answers,
    store_of,
    with_own_store,
    with_queued_jobs,
    write_records,
)
from lab.ext.course.lessons.model import Lesson, LessonResult, job_prefix
from lab.ext.course.lessons.results import judge, keep_in_store, not_yet, table
from lab.host.clock import POLL_SECONDS, WALL, Clock, poll, settle
from lab.host.naming import about

if TYPE_CHECKING:
    from lab.lab import Lab

T = TypeVar("T")

TAIL = 15
"""Lines of a log that an error quotes."""

ANSWER_CHARACTERS = 4000
"""Longest answer to a question."""

PLACES = {"inside": "Type this on the host", "class": "Type this in a terminal (File, New, Terminal)"}
"""Kind of a lab -> where a command of labctl is typed that breaks something in it."""

KNOWN_SECONDS = 20.0
"""Time in which a job appears after `ray job submit --no-wait` in the cell before."""


class Session:
    """One lesson, begun now, on the lab that this notebook runs in.

    What an earlier session of the same lesson measured is forgotten, its jobs no longer count; answers stay.
    """

    def __init__(
        self,
        number: int,
        lab: Lab | None = None,
        *,
        say: Callable[[str], None] = print,
        clock: Clock = WALL,
    ) -> None:
        """Begin a lesson. Raises NotFoundError for a number that has none, LabDownError, StoreError.

        Raises RefusedError, too, for one that needs a lab of one's own, in a class.
        """
        self.lesson: Lesson = find_lesson(number)
        if lab is None:
            from lab import Lab as OpenLab

            lab = with_own_store(OpenLab())
        if lab.view.person and not self.lesson.in_class:
            raise RefusedError(
                f"lesson {number} is for a lab of your own: it changes the lab itself or calls `ray.init()`, "
                "which a person of a class may not. START-HERE.md says which lessons are done here",
                "on a machine of yours: `labctl up`",
            )
        self.lab, self._say, self._clock = with_queued_jobs(lab), say, clock
        self._lab, self._store = lab, store_of(lab)
        self.began_at = clock()
        """Seconds since the epoch."""
        self._answers = read_answers(self._store, number)
        self._records: dict[str, object] = {ANSWERS: self._answers} if self._answers else {}
        self._named: set[str] = set()
        write_records(self._store, number, self.began_at, self._records)
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
            name = f"{job_prefix(self.lesson.number, self.lab.view.person)}{part}-{stamp}"
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
        if self.lab.view.person:
            queued = self.lab.queues.why(job)
            fits = why_waits(queued_demand(self.lab, job), None, self.lab.api.nodes())
            return queued.waits or queued.message or fits
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
            write_records(self._store, self.lesson.number, self.began_at, records)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{name}: {value!r} cannot be kept as JSON: {error}") from error
        self._records = records

    def answer(self, question: int, text: str) -> None:
        """Keep the answer to a question of the lesson; it goes into the report, and nothing checks it.

        An earlier one stays when there is no text. Raises UsageError for one that is too long, StoreError.
        """
        text, number = text.strip(), str(question)
        if len(text) > ANSWER_CHARACTERS:
            raise UsageError(f"{len(text)} characters; {ANSWER_CHARACTERS} are the most for an answer")
        if text:
            self._answers = dict(sorted({**self._answers, number: text}.items()))
            self.record(ANSWERS, self._answers)
        self._say(f"answer {number}: {'kept' if number in self._answers else 'none yet'}")

    def until(self, look: Callable[[], T], what: str, seconds: float) -> T:
        """Poll `look` until what it returns counts as true; returns that.

        Prints it when the head is down. Raises HeadDownError once it has been down for LOST_SECONDS, and
        WaitTimeoutError, which says `what` was waited for, after `seconds`.
        """
        outage, last = Outage(self._clock, self._say), ""

        def see() -> T | None:
            nonlocal last
            try:
                outage.hear(self.lab.api.get("/api/version"))
                return look() or None
            except ClusterError as error:
                outage.hear(error)
                if outage.seconds >= LOST_SECONDS:
                    raise
                last = error.message
                return None

        return poll(see, timeout=seconds, waited_for=what, clock=self._clock, every=1.0, state=lambda: last)

    def check(self) -> LessonResult:
        """Ask every check of the lesson, print the answers, and keep the result in the store.

        What only the host can ask, once the lab is down, is told and stays open.
        """
        evidence = gather(self._lab, self.lesson)
        result = judge(self.lesson, evidence, at=self._clock(), more=not_yet(self.lesson))
        keep_in_store(self._store, result)
        for line in table(self.lesson, result):
            self._say(self._about(line))
        return result

    def on_host(self, command: str) -> None:
        """Print a command of labctl to type now, such as `jobs`, with the lab that it is about, and where."""
        place = PLACES.get(self.lab.view.kind, "Type this in a terminal (File, New, Terminal) or on the host")
        self._say(f"{place}, now:\n{self._about(f'labctl {command}')}")

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
