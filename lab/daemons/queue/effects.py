"""What the controller does to Ray: submits attempts and stops them, in the background, as often as it takes.

Every effect follows from the phase on disk and may be repeated: an attempt has one submission id for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kueue.item import ADMITTED, Item
from lab.api.queue import Attempt, Stop
from lab.cluster.queues import WORKLOAD
from lab.cluster.submission import RESUME_VARIABLE, RESUMES, Submission
from lab.daemons.queue.model import UNCERTAIN_SECONDS, WORKERS, Record
from lab.daemons.queue.packages import Packages
from lab.daemons.queue.rayside import Cluster
from lab.daemons.queue.workers import Threads
from lab.errors import LabError, NotFoundError, UsageError, message_of
from lab.host.clock import Clock

GRANTED = "RAYLAB_WORKERS_GRANTED"

LONGEST_PAUSE_SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """Result of a task: `kind` says of which, `key` of whom, `value` what came out of it."""

    kind: str
    key: str
    value: Any = None


class Effects:
    """Tasks on their way, and what came of them."""

    def __init__(
        self,
        ray: Cluster,
        packages: Packages,
        workers: Threads,
        clock: Clock,
        wake: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """`wake` is called when there is an outcome, `say` with a line for the log."""
        self._ray, self._packages, self._workers = ray, packages, workers
        self._clock, self._wake, self._say = clock, wake, say
        self._outcomes: deque[Outcome] = deque()
        self._retries: dict[str, tuple[int, float]] = {}
        """Submission id -> tries that failed, and the time of the next."""
        self._tried: dict[str, float] = {}
        """Submission id -> time at which Ray was last, or may last have been, asked to submit it."""
        self._asked: set[str] = set()
        """Submission ids of jobs that were asked to stop."""
        self._committed: set[str] = set()
        """Submission ids of jobs for whose checkpoint nothing needs to wait any more."""

    def outcomes(self) -> list[Outcome]:
        """Everything that came out since the last time."""
        outcomes = []
        while self._outcomes:
            outcomes.append(self._outcomes.popleft())
        return outcomes

    def restored(self, attempt: Attempt) -> None:
        """Take up an attempt of an earlier process, which may have been submitting it when it ended."""
        if attempt.seen_at is None:
            self._tried[attempt.submission_id] = self._clock()

    def certain(self, record: Record, attempt: Attempt) -> bool:
        """Tell if an attempt that Ray does not know will never be known to it."""
        if attempt.seen_at is not None:
            return True
        tried = self._tried.get(attempt.submission_id)
        return not self._workers.busy(record.key) and (
            tried is None or self._clock() - tried >= UNCERTAIN_SECONDS
        )

    def asked(self, attempt: Attempt) -> bool:
        """Tell if this process has asked Ray to stop an attempt."""
        return attempt.submission_id in self._asked

    def over(self, attempt: Attempt) -> None:
        """Forget an attempt that has ended."""
        self._tried.pop(attempt.submission_id, None)
        self._retries.pop(attempt.submission_id, None)
        self._retries.pop(_look_of(attempt.submission_id), None)
        self._asked.discard(attempt.submission_id)
        self._committed.discard(attempt.submission_id)

    def background(self, kind: str, task: Callable[[], object]) -> None:
        """Ask something in the background; the outcome is what it returns, or the error it raises."""

        def run() -> None:
            try:
                self._done(Outcome(kind, "", task()))
            except LabError as error:
                self._done(Outcome(kind, "", error))
            except Exception as error:
                self._failed(kind, f"{kind}: {error!r}")
                self._done(Outcome(kind, "", LabError(repr(error))))

        self._workers.start(f" {kind}", run)

    # Submitting

    def submit(self, record: Record, attempt: Attempt, item: Item) -> None:
        """Submit an attempt that Ray does not know, unless its time has not come."""
        if self._put_off(attempt.submission_id):
            return
        granted, queue = granted_of(item), "/".join(item.queue)

        def run() -> None:
            try:
                package = self._packages.get(record.job.package) if record.job.package else None
                self._ray.submit(submission_of(record, attempt, queue, granted), package)
                self._retries.pop(attempt.submission_id, None)
            except (UsageError, NotFoundError) as error:
                self._refused(record, attempt, error)
            except Exception as error:
                self._failed(attempt.submission_id, f"{record.key}: not submitted: {message_of(error)}")
            self._tried[attempt.submission_id] = self._clock()
            self._wake()

        self._workers.start(record.key, run)

    def _refused(self, record: Record, attempt: Attempt, error: LabError) -> None:
        """Find out if Ray refused an attempt for good, or only because it has it already."""
        try:
            known = self._ray.find(attempt.submission_id) is not None
        except Exception as silent:
            self._failed(attempt.submission_id, f"{record.key}: not submitted: {message_of(silent)}")
            return
        if not known:
            self._done(Outcome("refused", record.key, (attempt.number, error.message)))

    # Stopping

    def stop(self, record: Record, attempt: Attempt, stop: Stop) -> None:
        """Stop an attempt that runs: once it has written a checkpoint, where there is time for that."""
        name = attempt.submission_id
        if self._clock() < stop.since + stop.grace and name not in self._committed:
            if not self._put_off(_look_of(name)):
                self._workers.start(record.key, lambda: self._look(name, stop))
        elif not self._put_off(name):
            self._workers.start(record.key, lambda: self._end(name))

    def end(self, submission_id: str) -> None:
        """Stop a job that should not be there."""
        if not self._put_off(submission_id):
            self._workers.start(submission_id, lambda: self._end(submission_id))

    def _look(self, name: str, stop: Stop) -> None:
        try:
            saved = self._ray.checkpoint_since(name, stop.since)
        except Exception as error:
            self._failed(_look_of(name), f"{name}: its checkpoints cannot be looked at: {message_of(error)}")
            return
        if saved is not False:  # it has one, or trains nothing
            self._committed.add(name)
            self._wake()

    def _end(self, name: str) -> None:
        self._asked.add(name)
        try:
            self._ray.stop(name)
            self._retries.pop(name, None)
        except Exception as error:
            self._failed(name, f"{name}: not stopped: {message_of(error)}")
        self._wake()

    # Both

    def _put_off(self, name: str) -> bool:
        return self._clock() < self._retries.get(name, (0, 0.0))[1]

    def _failed(self, name: str, message: str) -> None:
        count = self._retries.get(name, (0, 0.0))[0] + 1
        self._retries[name] = count, self._clock() + min(LONGEST_PAUSE_SECONDS, 0.25 * 2.0 ** min(count, 10))
        if count in (1, 10) or count % 100 == 0:
            self._say(message)

    def _done(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._wake()


def _look_of(submission_id: str) -> str:
    """Key of the retries of looking for a checkpoint."""
    return f"{submission_id} checkpoint"


def granted_of(item: Item) -> int | None:
    """Number of ranks that a job was granted; None for one that declares none, or holds nothing."""
    given = item.admission.pod_sets if item.admission is not None else ()
    if item.unmanaged and item.state == ADMITTED:
        return next((pod_set.count for pod_set in item.workload.pod_sets if pod_set.name == WORKERS), None)
    return next((pod_set.count for pod_set in given if pod_set.name == WORKERS), None)


def submission_of(record: Record, attempt: Attempt, queue: str, granted: int | None) -> Submission:
    """An attempt as Ray gets it; `granted` is the number of its ranks. Raises UsageError."""
    job = record.job
    variables = {**(job.runtime_env.get("env_vars") or {}), RESUME_VARIABLE: record.name}
    metadata = {
        "job_name": record.name,
        **job.metadata,
        "raylab_queue": queue,
        WORKLOAD: record.key,
        "raylab_attempt": str(attempt.number),
    }
    if job.recipe:
        metadata["raylab_recipe"] = job.recipe
    if attempt.number > 1:
        metadata[RESUMES] = job.attempts[0].submission_id
    command = job.command
    if granted is not None:
        variables[GRANTED] = str(granted)
        command = with_ranks(command, job.ranks, granted)
    return Submission(
        command,
        num_cpus=job.num_cpus,
        num_gpus=job.num_gpus,
        runtime_env={**job.runtime_env, "env_vars": variables},
        submission_id=attempt.submission_id,
        metadata=metadata,
    )


def with_ranks(command: tuple[str, ...], parameter: str, count: int) -> tuple[str, ...]:
    """The command with `--<parameter> count` in place of what it had."""
    option = f"--{parameter}"
    if not parameter or option not in command[:-1]:
        return command
    place = command.index(option) + 1
    return (*command[:place], str(count), *command[place + 1 :])
