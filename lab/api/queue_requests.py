"""Documents that ask something of the queues' controller, and its answers to orders.

Periods are seconds, amounts natural: cores of cpu, bytes of memory, whole units of the rest. Objects of
Kueue in YAML have shapes of their own: kueue.reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from lab.api.base import Limits, Strict

CEILING_SECONDS = 24 * 3600.0
"""The longest period that a person may give, as in AppWrapper; the time to live after success has none."""

MOST_TTL_SECONDS = 10 * 366 * 24 * 3600.0
MOST_RETRIES = 10_000
MOST_CODE = 255
MOST_CODES = 256

Text200: TypeAlias = Annotated[str, Limits(max_length=200)]
Cores: TypeAlias = Annotated[int, Limits(ge=0, le=100_000)] | Annotated[float, Limits(ge=0, le=100_000)]
Gpus: TypeAlias = Annotated[int, Limits(ge=0, le=10_000)] | Annotated[float, Limits(ge=0, le=10_000)]
Grace: TypeAlias = Annotated[int, Limits(ge=0, le=3600)] | Annotated[float, Limits(ge=0, le=3600)]
Period: TypeAlias = (
    Annotated[int, Limits(ge=0, le=CEILING_SECONDS)] | Annotated[float, Limits(ge=0, le=CEILING_SECONDS)]
)
Lifetime: TypeAlias = (
    Annotated[int, Limits(ge=0, le=MOST_TTL_SECONDS)] | Annotated[float, Limits(ge=0, le=MOST_TTL_SECONDS)]
)
Count: TypeAlias = Annotated[int, Limits(ge=1, le=10_000)]
Codes: TypeAlias = Annotated[
    tuple[Annotated[int, Limits(ge=1, le=MOST_CODE)], ...], Limits(max_length=MOST_CODES)
]


@dataclass(frozen=True)
class Retry(Strict):
    """Rules for a job that fails or falls ill; see lab.cluster.retries."""

    limit: Annotated[int, Limits(ge=0, le=MOST_RETRIES)] = 3
    pause: Period = 90.0
    warmup: Period = 300.0
    failure_grace: Period = 60.0
    terminal_exit_codes: Codes = ()
    retryable_exit_codes: Codes = ()
    success_ttl: Lifetime = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Workers(Strict):
    """The ranks of a job: how many, and what each of them takes."""

    count: Count
    min_count: Count | None = None
    cpus: Cores = 0
    gpus: Gpus = 0
    memory: Annotated[int, Limits(ge=0, le=1 << 50)] = 0


@dataclass(frozen=True)
class JobRequest(Strict):
    """`POST /jobs` and `/dry-run`: a job with what it takes.

    Only `command` is required, and `queue`, `retry` or `max_time`: a job without a queue runs at once, and is
    only watched. `queue` is NAME or NAMESPACE/NAME; without a `name` one is made up; `package` is the SHA-256
    of a zip that was PUT before. `num_cpus` and `num_gpus` are of the entrypoint.
    """

    command: Annotated[
        tuple[Annotated[str, Limits(max_length=100_000)], ...],
        Limits(min_length=1, max_length=10_000),
    ]
    name: Annotated[str, Limits(pattern="^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$")] = ""
    queue: Annotated[str, Limits(max_length=510)] = ""
    package: Annotated[str, Limits(pattern="^([0-9a-f]{64})?$")] = ""
    runtime_env: Mapping[str, object] = field(default_factory=dict)
    """Ray's own, which is open."""
    metadata: Annotated[
        Mapping[Annotated[str, Limits(max_length=200)], Annotated[str, Limits(max_length=1000)]],
        Limits(max_length=100),
    ] = field(default_factory=dict)
    num_cpus: Cores = 0
    num_gpus: Gpus = 0
    workers: Workers | None = None
    priority_class: Annotated[str, Limits(max_length=253)] = ""
    max_time: Annotated[float, Limits(ge=1, le=1e9)] | None = None
    owner: Text200 = ""
    recipe: Text200 = ""
    ranks: Text200 = ""
    enforce: bool = False
    preemption_grace: Grace | None = None
    retry: Retry | None = None


@dataclass(frozen=True)
class OrderRequest(Strict):
    """`POST /workloads/NAMESPACE/NAME/VERB`: cancel, deactivate or activate a job."""

    message: Annotated[str, Limits(max_length=1000)] = ""


@dataclass(frozen=True)
class File(Strict):
    """A YAML text with the name of its file."""

    name: Annotated[str, Limits(max_length=4096)]
    text: str


@dataclass(frozen=True)
class ApplyRequest(Strict):
    """`POST /apply`: set the objects of these files, all of them or none."""

    files: Annotated[tuple[File, ...], Limits(min_length=1, max_length=1000)]
    namespace: Annotated[str, Limits(pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")] = "default"
    dry_run: bool = False


@dataclass(frozen=True)
class ObjectName(Strict):
    """An object; a LocalQueue without a namespace is in `default`."""

    kind: str
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class DeleteRequest(Strict):
    """`POST /delete`: delete these objects, all of them or none."""

    objects: Annotated[tuple[ObjectName, ...], Limits(min_length=1, max_length=10_000)]


# What is answered


@dataclass(frozen=True)
class Accepted:
    """Answer to a `JobRequest`; `submission_id` is Ray's of the first attempt."""

    workload: str
    submission_id: str


@dataclass(frozen=True)
class Phase:
    """Answer to an `OrderRequest`."""

    workload: str
    phase: str


@dataclass(frozen=True)
class ObjectChange:
    """An object, and that it was `created`, `configured`, `unchanged` or `deleted`."""

    kind: str
    name: str
    namespace: str
    change: str


@dataclass(frozen=True)
class Misfit:
    """One thing that is wrong in a file, or that will probably surprise."""

    file: str
    line: int
    path: str
    message: str
    hint: str


@dataclass(frozen=True)
class Changed:
    """Answer to an `ApplyRequest` or a `DeleteRequest`."""

    objects: tuple[ObjectChange, ...]
    warnings: tuple[Misfit, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An error: labctl's exit code, and what is wrong; `problems` are of files that were refused."""

    code: int = 0
    message: str
    hint: str = ""
    problems: tuple[Misfit, ...] | None = None


@dataclass(frozen=True)
class Refused:
    """The body of every answer above 299."""

    error: Refusal
