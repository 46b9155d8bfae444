"""What `--json` prints of a lab, its jobs and its faults. Times are seconds since the epoch, sizes are bytes.

The command line only writes these, as dictionaries: it imports the types to be checked by, and at run time
not at all. Queues, receipts, chaos, ladders and lessons print the documents of their own modules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from typing_extensions import NotRequired, TypedDict

from lab.api.queue import Description, Row, Why


class ShownError(TypedDict):
    """What stopped a command: the name of its class, and the exit code."""

    code: str
    exit_code: int
    message: str
    hint: str


# The lab


class ShownService(TypedDict):
    """One service."""

    service: str
    state: str
    detail: str
    url: str
    pid: int | None
    container: str


class ShownAddress(TypedDict):
    """A service of `status --addresses`; `secret` only with --show-secrets, null where there is none."""

    service: str
    state: str
    what: str
    url: str
    secret_file: str
    secret: NotRequired[Mapping[str, str] | None]


class ShownNode(TypedDict):
    """One Ray node, resources as Ray counts them."""

    service: str
    node_id: str
    alive: bool
    head: bool
    resources: Mapping[str, float]
    started_at: float | None
    ended_at: float | None
    reason: str


class ShownDevice(TypedDict):
    """Health of a device."""

    node: str
    device: str
    state: str
    reason: str
    message: str
    since: float


class ShownAssignment(TypedDict):
    """The GPU of a worker."""

    service: str
    gpu: str
    name: str


class ShownGpus(TypedDict):
    """Which GPUs a lab has, and why these."""

    vendor: str
    reason: str
    assignments: Sequence[ShownAssignment]


class ShownLab(TypedDict):
    """The whole lab. `problems` lists the questions that got no answer."""

    name: str
    runtime: str
    up: bool
    healthy: bool
    gpu: ShownGpus
    services: Sequence[ShownService]
    nodes: Sequence[ShownNode]
    running_jobs: Sequence[ShownJob]
    health: Sequence[ShownDevice]
    notes: Sequence[str]
    problems: Sequence[str]


# Jobs


class ShownJob(TypedDict):
    """One job."""

    submission_id: str
    name: str
    status: str
    earlier: bool
    recipe: str
    entrypoint: str
    message: str
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    num_cpus: float
    num_gpus: float


class ListedJob(ShownJob):
    """A job of `labctl jobs`."""

    waiting: ShownWaiting | None


class ShownJobs(TypedDict):
    """What `labctl jobs` lists; `problem` says what is not known."""

    jobs: Sequence[ListedJob]
    queued: NotRequired[Sequence[Row]]
    problem: NotRequired[str]


class DescribedJob(ListedJob):
    """A job of `labctl jobs show`."""

    placement: ShownPlacement | None
    lost_attempts: Sequence[str]
    problem: str
    explanation: ShownExplanation | None
    last_lines: Sequence[str]


class QueuedJob(DescribedJob):
    """The same of a queue."""

    queue: Description


class PendingJob(QueuedJob):
    """One that waits there."""

    why: Why


class SubmittedJob(TypedDict):
    """A job of `labctl submit`; `workload` and `queue` are of queued ones, the rest of those that failed."""

    submission_id: str
    waits: str
    job: ShownJob | None
    workload: NotRequired[str]
    last_lines: NotRequired[Sequence[str]]
    explanation: NotRequired[ShownExplanation | None]
    queue: NotRequired[Description]


class ShownExplanation(TypedDict):
    """Cause of a failed job; `line` is the evidence."""

    cause: str
    title: str
    todo: str
    docs: str
    line: str


class ShownHolding(TypedDict):
    """Resources of a service that a part of a job holds."""

    job: str
    service: str
    what: str
    resources: Mapping[str, float]


class ShownWaiting(TypedDict):
    """Reason why a job, or a part of it, waits."""

    kind: Literal["infeasible", "others", "starting"]
    reason: str
    what: str
    demand: Mapping[str, float]
    count: int
    short: Sequence[str]
    holders: Sequence[ShownHolding]


class WaitingJob(ShownWaiting):
    """The same, and the job."""

    job: str


class ShownGpuLoad(TypedDict):
    """One GPU of a node; see GpuLoad."""

    index: int
    name: str
    simulated: bool
    share: float
    utilization: float | None
    memory_used: int | None
    memory_total: int | None


class ShownNodeLoad(TypedDict):
    """What a node has, and what runs there; 100 percent of CPU is one core."""

    service: str
    cpu_percent: float | None
    cores: int | None
    memory_used: int | None
    memory_limit: int | None
    shares_host: bool
    gpus: Sequence[ShownGpuLoad]
    offers: Mapping[str, float]
    held: Mapping[str, float]
    health: str
    holdings: Sequence[ShownHolding]


class ShownLoad(TypedDict):
    """Nodes, what runs there, and who waits."""

    at: float
    nodes: Sequence[ShownNodeLoad]
    waiting: Sequence[WaitingJob]
    notes: Sequence[str]


class ShownRank(TypedDict):
    """Where a rank of Ray Train runs."""

    rank: int
    service: str


class ShownPlacement(TypedDict):
    """Services on which a job runs."""

    driver: str
    workers: Sequence[ShownRank]


class ShownCheckpoint(TypedDict):
    """One checkpoint; `files` is their number. Of one that is not `in_store` its ledger tells, alone."""

    uri: str
    in_store: bool
    run: str
    job: str | None
    name: str
    epoch: float | None
    files: int
    size: int
    modified: float | None
    sha256: str | None


class ShownSetting(TypedDict):
    """A parameter of a recipe."""

    name: str
    type: str
    default: int | float | str | None
    minimum: float | None
    maximum: float | None
    help: str


class ShownRecipe(TypedDict):
    """One recipe; `fault_tolerance` has the further ways of it."""

    name: str
    summary: str
    parameters: Sequence[ShownSetting]
    fault_tolerance: Sequence[str]


# Faults


class ShownParameter(TypedDict):
    """A parameter of a fault."""

    name: str
    unit: str
    default: float | None
    minimum: float
    maximum: float
    required: bool
    help: str


class ShownOutcome(TypedDict):
    """What is right after a fault."""

    outcome: str
    text: str


class ShownKind(TypedDict):
    """One kind of fault."""

    name: str
    summary: str
    hits: str
    parameters: Sequence[ShownParameter]
    runtimes: Sequence[str]
    expected: ShownOutcome
    revert: str


class ShownFault(TypedDict):
    """A fault that was injected."""

    kind: str
    target: str
    at: float
    reverted_at: float | None


class ShownRevert(TypedDict):
    """A fault that was left behind; `problem` is null when it was undone."""

    kind: str
    target: str
    job: str
    at: float
    problem: str | None
