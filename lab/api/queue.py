"""Documents of jobs in the queues, as the controller answers: lists, one job, why it waits, what was decided.

They are a public contract: fields are added, not renamed or removed. Times are seconds since the epoch,
amounts natural: cores of cpu, bytes of memory, whole units of the rest. Places are counted from 0, as Kueue
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.api.base import Number
from lab.api.queue_requests import Retry


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
    pause: Number = 0.0
    """Seconds between its end and the next attempt."""


@dataclass(frozen=True)
class Stop:
    """Order to end an attempt; `to` is the phase after it, `outcome` the reason of Finished for `done`.

    `charged` is that of a reset.
    """

    to: str
    reason: str
    message: str
    since: float
    grace: Number = 0.0
    """Seconds after `since` for which a checkpoint is waited for."""
    outcome: str = ""
    charged: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    """A job as a list has it. `name` is its workload's, `waits` a sentence for people."""

    workload: str
    namespace: str
    name: str
    job_name: str
    recipe: str
    command: str
    owner: str
    local_queue: str
    cluster_queue: str
    priority: int
    priority_class: str
    status: str
    """Pending, Admitted, Evicted, Deactivated or Finished."""
    phase: str
    reason: str
    message: str
    waits: str = ""
    position_in_cluster_queue: int | None
    position_in_local_queue: int | None
    created: Number
    admitted_at: Number | None
    finished_at: Number | None
    executed: Number
    """Seconds for which it held quota."""
    attempts: int
    submission_id: str
    takes_more: bool
    """True for a job that takes more than it asked for."""


@dataclass(frozen=True)
class Listing:
    """`GET /workloads`: jobs in the order of their queues, of `total`."""

    workloads: tuple[Row, ...]
    total: int
    now: Number
    away: Mapping[str, str] = field(default_factory=dict)
    """`ray` or `store` -> reason why it does not answer."""


@dataclass(frozen=True)
class PodSetView:
    """Workers of one kind: their count, and what each asks for."""

    name: str
    count: int
    min_count: int | None
    requests: Mapping[str, Number]


@dataclass(frozen=True)
class Granted:
    """Workers of one kind that were admitted: resource -> flavor, and resource -> amount."""

    name: str
    count: int
    flavors: Mapping[str, str]
    usage: Mapping[str, Number]


@dataclass(frozen=True)
class Resets:
    """Policy and state of a job's resets; `phase` is AppWrapper's."""

    policy: Retry | None
    phase: str
    retries: int
    """Resets that were charged."""
    resets: int
    reason: str
    resumes_at: Number | None


@dataclass(frozen=True)
class JobEvent:
    """One thing that was decided about a job."""

    number: int
    at: Number
    event: str
    reason: str
    message: str
    cluster_queue: str


@dataclass(frozen=True)
class QueueEvent:
    """An item of `GET /events`: one thing that was decided."""

    number: int
    at: Number
    event: str
    workload: str
    reason: str
    message: str
    cluster_queue: str
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Pod set -> resource -> flavor."""


@dataclass(frozen=True, kw_only=True)
class Description(Row):
    """`GET /workloads/NAMESPACE/NAME`: all that is known of a job."""

    pod_sets: tuple[PodSetView, ...]
    granted: tuple[Granted, ...]
    active: bool
    max_time: Number | None
    preemption_grace: Number
    enforce: bool
    takes: Mapping[str, Number]
    """Resource -> amount that it took when that was more than it asked for; else empty."""
    requeues: int
    requeue_at: Number | None
    stopping: Stop | None
    retry: Resets | None = None
    attempts_made: tuple[Attempt, ...]
    events: tuple[JobEvent, ...]
    """The latest of them."""
    now: Number
    away: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """An amount of a flavor's resource that a job is short of, and how much it asks for."""

    flavor: str
    resource: str
    missing: Number
    asked: Number


@dataclass(frozen=True)
class HolderView:
    """A job that holds what another one is short of: flavor -> resource -> amount."""

    workload: str
    job_name: str
    owner: str
    local_queue: str
    cluster_queue: str
    priority: int
    usage: Mapping[str, Mapping[str, Number]]
    since: Number | None
    leaving: str
    """Reason for which it is being stopped; empty for one that is not."""


@dataclass(frozen=True)
class EndView:
    """An end that a forecast counts on; `jobs` is the number of finished ones that a usual time is from."""

    workload: str
    at: Number
    length: Number
    basis: str
    jobs: int


@dataclass(frozen=True)
class ForecastView:
    """When a job could start; `why_not` and `unknown` where that is not known."""

    at: Number | None
    seconds: Number | None
    why_not: str
    ends: tuple[EndView, ...]
    unknown: tuple[str, ...]
    """Jobs that nobody knows the end of."""


@dataclass(frozen=True, kw_only=True)
class Why(Row):
    """`GET /workloads/NAMESPACE/NAME/why`: why a job waits, who holds what it misses, and until when."""

    of_cluster_queue: int | None
    of_local_queue: int | None
    ahead: tuple[str, ...]
    away: Mapping[str, str] = field(default_factory=dict)
    now: Number
    missing: tuple[Missing, ...]
    holders: tuple[HolderView, ...]
    forecast: ForecastView | None


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """Answer to `POST /dry-run`: what would be if a job were submitted now."""

    workload: None = None
    local_queue: str
    namespace: str
    cluster_queue: str
    priority: int
    status: str
    reason: str
    message: str
    waits: str = ""
    flavors: Mapping[str, Mapping[str, str]]
    position_in_cluster_queue: int | None
    of_cluster_queue: int | None
    position_in_local_queue: int | None
    of_local_queue: int | None
    preempts: tuple[str, ...]
    pod_sets: tuple[PodSetView, ...]
    away: Mapping[str, str] = field(default_factory=dict)
    now: Number
    missing: tuple[Missing, ...]
    holders: tuple[HolderView, ...]
    forecast: ForecastView | None
