"""Jobs that are in the queues, for the commands about jobs: found, followed attempt after attempt, ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lab.api.queue import Attempt, Description
from lab.cli import queue_words
from lab.cluster.jobs import Job
from lab.cluster.queues import OVER
from lab.errors import ClusterError, JobError, LabDownError, LabError, NotFoundError, UnsupportedError
from lab.host.clock import POLL_SECONDS, Clock, settle
from lab.topology import JOB_FINAL

if TYPE_CHECKING:
    from lab.lab import Lab

QUEUED = "QUEUED"
"""Status of a job that waits in a queue: not a status of Ray's."""

UNSENT = "UNSENT"
"""End of an attempt that Ray never knew."""

PATIENCE_SECONDS = 60.0
"""Time that the controller may be silent, and in which it has to notice an attempt that Ray lost."""

STOP_SECONDS = 60.0
"""Deadline for a job to end once it was cancelled."""


def queued_job(lab: Lab, job_id: str) -> tuple[Description | None, LabDownError | None]:
    """The job as the queues know it; None where they do not, with the reason if they cannot be asked."""
    try:
        return lab.queues.describe(job_id), None
    except (NotFoundError, UnsupportedError):
        return None, None
    except LabDownError as error:
        return None, error


def as_job(described: Description) -> Job:
    """A job that Ray does not know now, in the form of those that it knows."""
    made = described.attempts_made
    last = made[-1].ended if made else ""
    over = last if last in JOB_FINAL else "STOPPED"
    return Job(
        submission_id=described.name,
        status=over if described.status in OVER else QUEUED,
        entrypoint=described.command,
        message=described.message or described.reason,
        ended_at=described.finished_at,
        metadata={"job_name": described.job_name, "raylab_recipe": described.recipe},
    )


def attempts(described: Description, job_id: str) -> list[str]:
    """The attempts that an id stands for: all those of a job, or the one of that id."""
    ids = [attempt.submission_id for attempt in described.attempts_made if attempt.ended != UNSENT]
    return [job_id] if job_id in ids and job_id != described.name else ids


def newest(lab: Lab, described: Description, job_id: str) -> Job:
    """The newest attempt as Ray knows it, else the job as the queues know it."""
    for submission_id in reversed(attempts(described, job_id)):
        try:
            return lab.job(submission_id)
        except NotFoundError:
            continue
    return as_job(described)


def cancelled(lab: Lab, described: Description, clock: Clock) -> Description:
    """The job once it has ended, or after a time. One that has ended stays as it is."""
    if described.status not in OVER:
        lab.queues.cancel(described.workload, "stopped with labctl")
    workload = described.workload
    return settle(
        lambda: lab.queues.describe(workload),
        lambda now: now.status in OVER and now.stopping is None,
        timeout=STOP_SECONDS,
        clock=clock,
    )


class Follower:
    """Follows a job from its place in a queue to its end, across preemptions."""

    def __init__(self, lab: Lab, workload: str, clock: Clock, say: Callable[[str], None]) -> None:
        """`say` gets each thing that happens around the log, in words."""
        self._lab, self._clock, self._say = lab, clock, say
        self._last: object = None
        self._waited = False
        self.workload = workload
        self._description: Description | None = None

    @property
    def description(self) -> Description:
        """The job as it was when it was asked for last, or as it is now. Raises what `lines` raises."""
        return self._description or self._look()

    def lines(self) -> Iterator[str]:
        """The logs of all attempts, a line at a time, until the job has ended."""
        seen = 0
        while True:
            self._look()
            made = self.description.attempts_made
            if seen < len(made) and made[seen].ended == UNSENT:
                seen += 1
            elif seen < len(made) and made[seen].seen_at is not None:
                self._begins(made[seen])
                yield from self._attempt(seen)
                seen += 1
            elif self.description.status in OVER:
                return
            else:
                if self.description.status == "Pending":
                    self._say_why()
                self._clock.sleep(POLL_SECONDS)

    def _look(self) -> Description:
        """Ask for the job; a controller that starts again may be silent for a while."""
        description = settle(
            self._ask,
            lambda answer: not isinstance(answer, LabError),
            timeout=PATIENCE_SECONDS,
            clock=self._clock,
        )
        if isinstance(description, LabError):
            raise description
        self._description = description
        return description

    def _ask(self) -> Description | LabError:
        try:
            return self._lab.queues.describe(self.workload)
        except (LabDownError, ClusterError) as error:
            return error

    def _begins(self, attempt: Attempt) -> None:
        number = attempt.number
        if number > 1:
            self._say(f"attempt {number} of job {self.workload} begins: {attempt.submission_id}")
        elif self._waited:
            self._say(f"job {self.workload} is admitted by ClusterQueue {self.description.cluster_queue}")
        self._last = None

    def _attempt(self, seen: int) -> Iterator[str]:
        """The log of one attempt, to its end."""
        submission_id = self.description.attempts_made[seen].submission_id
        try:
            yield from self._lab.jobs.follow(
                submission_id, appears_within=PATIENCE_SECONDS, on_outage=self._say
            )
        except (NotFoundError, ClusterError, JobError):
            if not self._over(seen):
                raise
        self._over(seen)
        attempt = self.description.attempts_made[seen]
        if attempt.evicted:
            self._say(
                f"attempt {attempt.number} of job {self.workload} was stopped: {self._evicted(attempt)}"
            )
        elif attempt.ended == "LOST":
            self._say(f"Ray lost attempt {attempt.number} of job {self.workload}; it goes back to its queue")

    def _over(self, seen: int) -> bool:
        """Wait until the controller has noticed the end of an attempt; tell if it has."""

        def ended() -> bool:
            self._look()
            return bool(self.description.attempts_made[seen].ended)

        return settle(ended, bool, timeout=PATIENCE_SECONDS, clock=self._clock)

    def _evicted(self, attempt: Attempt) -> str:
        for event in reversed(self.description.events):
            if event.event in ("Preempted", "Deactivated") and event.message:
                return f"{event.reason}: {queue_words.with_sentence(event.message)}"
        return attempt.evicted

    def _say_why(self) -> None:
        """Say why the job waits, when that has changed."""
        job = self.description
        now = (job.reason, job.message, job.position_in_cluster_queue, job.away)
        if now == self._last or not (self.description.reason or self.description.away):
            return
        self._last, self._waited = now, True
        try:
            outlook = self._lab.queues.why(self.workload)
        except LabError:  # it is asked for again when it has changed
            return
        if outlook.status == "Pending":
            self._say(queue_words.waits(outlook))
            if problem := queue_words.away(outlook):
                self._say(problem)
