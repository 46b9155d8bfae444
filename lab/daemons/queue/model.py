"""Jobs in the queues as plain, durable data. Times are seconds since the epoch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from kueue.places import Change
from lab.cluster.retries import RetryPolicy, read_policy

QUEUED = "queued"
SUBMITTING = "submitting"
RUNNING = "running"
STOPPING = "stopping"
RESETTING = "resetting"
INACTIVE = "inactive"
DONE = "done"
PHASES = (QUEUED, SUBMITTING, RUNNING, STOPPING, RESETTING, INACTIVE, DONE)
"""Phases of a job. Quota is held from `submitting` until Ray's job is over, and all through a reset."""

HOLDING = (SUBMITTING, RUNNING, STOPPING, RESETTING)

DRIVER, WORKERS = "driver", "workers"
"""Pod sets of a job: its entrypoint, and the ranks that it trains with."""

UNCERTAIN_SECONDS = 10.0
"""Time after which a request to submit that nobody saw answered can no longer reach Ray."""

GRACE_SECONDS = 20.0
"""Time that a preempted job gets for its next checkpoint."""


@dataclass(frozen=True)
class Attempt:
    """One submission to Ray. `ended` is Ray's last status, or LOST when Ray no longer knew it."""

    number: int
    submission_id: str
    admitted_at: float
    seen_at: float | None = None
    """Time at which Ray knew it first."""
    started_at: float | None = None
    """Time at which it was seen running first."""
    ended_at: float | None = None
    ended: str = ""
    message: str = ""
    evicted: str = ""
    """Reason for which it was stopped, such as `Preempted`."""
    whole_at: float | None = None
    """Time at which it was first seen with all that the job was granted."""
    short_since: float | None = None
    """Time since which it lacks a part of that again."""
    exit_code: int | None = None
    """Exit code of the entrypoint, where Ray says it."""
    reset: str = ""
    """Reason of the reset that ended it, in AppWrapper's words, such as `FailedComponent`."""
    charged: bool = False
    """True for a reset that counts against the limit of retries."""
    pause: float = 0.0
    """Seconds between its end and the next attempt."""


LOST = "LOST"
UNSENT = "UNSENT"
"""End of an attempt that was given up before Ray knew it."""


@dataclass(frozen=True)
class Stop:
    """Order to end an attempt; `to` is the phase after it, `outcome` the reason of Finished for `done`.

    `charged` is that of a reset.
    """

    to: str
    reason: str
    message: str
    since: float
    grace: float = 0.0
    """Seconds after `since` for which a checkpoint is waited for."""
    outcome: str = ""
    charged: bool = False


@dataclass(frozen=True)
class QueuedJob:
    """All that is needed to submit a job, and its attempts so far."""

    command: tuple[str, ...]
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    package: str = ""
    """SHA-256 of its working folder as a zip; empty without one."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    num_cpus: float = 0
    num_gpus: float = 0
    each: Mapping[str, float] = field(default_factory=dict)
    """Request of one rank: resource as Ray calls it (CPU, GPU, memory in bytes) -> amount."""
    owner: str = ""
    recipe: str = ""
    ranks: str = ""
    """Parameter of the command (`--<ranks> N`) that is set to the number of workers granted."""
    priority_class: str = ""
    grace: float = GRACE_SECONDS
    enforce: bool = False
    """End the job when it takes more than it asked for."""
    takes: Mapping[str, float] = field(default_factory=dict)
    """Resource -> amount that it took when that was more than it asked for; else empty."""
    attempts: tuple[Attempt, ...] = ()
    retry: RetryPolicy | None = None
    """None: a job that fails has failed."""

    @property
    def retries(self) -> int:
        """Number of resets that were charged."""
        return sum(each.charged for each in self.attempts)


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
        kept = tuple(each for each in self.job.attempts if each.number < attempt.number)
        return replace(self, job=replace(self.job, attempts=(*kept, attempt)))


@dataclass(frozen=True)
class Event:
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


def job_document(record: Record) -> dict[str, Any]:
    """The column `job` as plain JSON."""
    return {**asdict(record.job), "stop": None if record.stop is None else asdict(record.stop)}


def read_job(document: Mapping[str, Any]) -> tuple[QueuedJob, Stop | None]:
    """Inverse of `job_document`. Raises KeyError, TypeError for another document."""
    given = dict(document)
    stop = given.pop("stop")
    given["attempts"] = tuple(Attempt(**each) for each in given["attempts"])
    given["command"] = tuple(given["command"])
    if given.get("retry") is not None:
        given["retry"] = read_policy(given["retry"])
    unknown = set(given) - {each.name for each in fields(QueuedJob)}
    if unknown:
        raise KeyError(", ".join(sorted(unknown)))
    return QueuedJob(**given), None if stop is None else Stop(**stop)
