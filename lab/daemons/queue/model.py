"""Jobs in the queues as plain, durable data. Times are seconds since the epoch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kueue.places import Change
from lab.api.base import Number, Plain, parse, plain
from lab.api.queue import Attempt, Stop
from lab.cluster.retries import RetryPolicy
from lab.errors import StateError

QUEUED = "queued"
SUBMITTING = "submitting"
RUNNING = "running"
STOPPING = "stopping"
RESETTING = "resetting"
INACTIVE = "inactive"
DONE = "done"
"""Phases of a job."""

HOLDING = (SUBMITTING, RUNNING, STOPPING, RESETTING)
"""Phases in which it holds quota: until Ray's job is over, and all through a reset."""

DRIVER, WORKERS = "driver", "workers"
"""Pod sets of a job: its entrypoint, and the ranks that it trains with."""

UNCERTAIN_SECONDS = 10.0
"""Time after which a request to submit that nobody saw answered can no longer reach Ray."""

GRACE_SECONDS = 20.0
"""Time that a preempted job gets for its next checkpoint."""


LOST = "LOST"
UNSENT = "UNSENT"
"""End of an attempt that was given up before Ray knew it."""


@dataclass(frozen=True)
class QueuedJob:
    """All that is needed to submit a job, and its attempts so far."""

    command: tuple[str, ...]
    runtime_env: Mapping[str, Plain] = field(default_factory=dict)
    package: str = ""
    """SHA-256 of its working folder as a zip; empty without one."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    num_cpus: Number = 0
    num_gpus: Number = 0
    per_rank: Mapping[str, Number] = field(default_factory=dict)
    """Request of one rank: resource as Ray calls it (CPU, GPU, memory in bytes) -> amount."""
    owner: str = ""
    recipe: str = ""
    ranks: str = ""
    """Parameter of the command (`--<ranks> N`) that is set to the number of workers granted."""
    priority_class: str = ""
    grace: Number = GRACE_SECONDS
    enforce: bool = False
    """End the job when it takes more than it asked for."""
    takes: Mapping[str, Number] = field(default_factory=dict)
    """Resource -> amount that it took when that was more than it asked for; else empty."""
    attempts: tuple[Attempt, ...] = ()
    retry: RetryPolicy | None = None
    """None: a job that fails has failed."""

    @property
    def retries(self) -> int:
        """Number of resets that were charged."""
        return sum(attempt.charged for attempt in self.attempts)


@dataclass(frozen=True)
class Record:
    """A row of the table `workloads`: the job, its phase, and what is to be done about it.

    The Workload itself, with its status, is `Controller.engine.items[key]`.
    """

    key: str
    job: QueuedJob
    phase: str
    created: float
    finished_at: float | None = None
    stop: Stop | None = None

    @property
    def name(self) -> str:
        """The workload's name, which is Ray's submission id of the first attempt."""
        return self.key.partition("/")[2]

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.job.attempts[-1] if self.job.attempts else None

    def with_attempt(self, attempt: Attempt) -> Record:
        """The record with this as its newest attempt, new or changed."""
        kept = tuple(earlier for earlier in self.job.attempts if earlier.number < attempt.number)
        return replace(self, job=replace(self.job, attempts=(*kept, attempt)))


@dataclass(frozen=True)
class StoredEvent:
    """A row of the table `events`."""

    number: int
    change: Change


def submission_id(name: str, attempt: int) -> str:
    """Ray's id of an attempt, counted from 1. It never changes, so nothing can be submitted twice."""
    return name if attempt == 1 else f"{name}-{attempt}"


def share_ids(one: str, other: str) -> bool:
    """Tell if attempts of jobs with these names could have one id, such as `a-2` and the second of `a`."""
    short, long = sorted((one, other), key=len)
    return re.fullmatch(f"{re.escape(short)}(-[1-9][0-9]*)?", long) is not None


@dataclass(frozen=True)
class StoredJob(QueuedJob):
    """The column `job`: the job, and the order to end its attempt."""

    stop: Stop | None = None


def job_document(record: Record) -> dict[str, object]:
    """The column `job` as plain JSON."""
    document: dict[str, object] = {**plain(record.job), "stop": plain(record.stop)}
    return document


def read_job(document: object, key: str) -> tuple[QueuedJob, Stop | None]:
    """Inverse of `job_document`; `key` is the workload's. Raises StateError for another document."""
    given = vars(parse(StoredJob, document, f"the job of {key}", StateError)).copy()
    return QueuedJob(**{name: value for name, value in given.items() if name != "stop"}), given["stop"]
