"""Requests of queued jobs: the queue, the priority, and what the job is going to take."""

from __future__ import annotations

import getpass
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.cluster.submission import Submission
from lab.errors import RefusedError, UsageError
from lab.topology import LabSpec

if TYPE_CHECKING:
    from lab.api.queue_requests import Workers
    from lab.cluster.placement import Ranks
    from lab.cluster.recipes import Recipe
    from lab.cluster.retries import RetryPolicy

LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""A DNS label, as the name of a workload is one."""

MOST_WORKERS = 10_000
MOST_AMOUNT = 100_000.0


@dataclass(frozen=True)
class QueueRequest:
    """What a job in a queue asks for. Raises UsageError for what makes no sense.

    `queue` is NAME or NAMESPACE/NAME; with `retry` or `max_time` it may be empty: the job waits for nothing
    then, and the controller only watches it. Times are seconds, amounts those of one worker, memory bytes.
    With `min_workers` it starts with fewer workers too. `enforce` ends a job that takes more than it asked
    for. `name` is that of the workload and the submission id of its first attempt, a new one; else one is
    made up.
    """

    queue: str
    priority: str = ""
    max_time: float | None = None
    workers: int | None = None
    min_workers: int | None = None
    gpus_per_worker: float | None = None
    cpus_per_worker: float | None = None
    memory_per_worker: int | None = None
    enforce: bool = False
    preemption_grace: float | None = None
    retry: RetryPolicy | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.name and not re.fullmatch(LABEL, self.name):
            raise UsageError(
                f"name {self.name!r}: not the name of a workload",
                "use 1 to 63 lower-case letters, digits and hyphens, the first and the last no hyphen",
            )
        if not self.queue.strip("/") and (self.queue or not self.watched):
            raise UsageError(f"queue {self.queue!r}: not the name of a queue", "NAME or NAMESPACE/NAME")
        for name, number in (("workers", self.workers), ("min_workers", self.min_workers)):
            if number is not None and not 1 <= number <= MOST_WORKERS:
                raise UsageError(f"{name} {number}: must be between 1 and {MOST_WORKERS}")
        if self.workers is not None and self.min_workers is not None and self.min_workers > self.workers:
            raise UsageError(f"min_workers {self.min_workers}: must be at most workers, {self.workers}")
        amounts = {"gpus_per_worker": self.gpus_per_worker, "cpus_per_worker": self.cpus_per_worker}
        for name, amount in amounts.items():
            if amount is not None and not 0 <= amount <= MOST_AMOUNT:
                raise UsageError(f"{name} {amount}: must be between 0 and {MOST_AMOUNT:g}")
        for name, seconds in (("max_time", self.max_time), ("preemption_grace", self.preemption_grace)):
            if seconds is not None and not (math.isfinite(seconds) and seconds >= 0):
                raise UsageError(f"{name} {seconds}: must be a number of seconds")

    @property
    def watched(self) -> bool:
        """Tell if there is something for the controller to do also where no queue is named."""
        return self.retry is not None or self.max_time is not None

    @property
    def asks_for_workers(self) -> bool:
        given = (self.workers, self.gpus_per_worker, self.cpus_per_worker, self.memory_per_worker)
        return any(value is not None for value in given)

    @property
    def pod_set(self) -> Workers | None:
        """The workers as the controller is told of them; None where nothing is said of workers."""
        from lab.api.queue_requests import Workers

        if not self.asks_for_workers:
            return None
        cpus = self.cpus_per_worker
        return Workers(
            count=self.workers or 1,
            min_count=self.min_workers,
            cpus=1.0 if cpus is None else cpus,  # as Ray Train reserves for a worker that says nothing
            gpus=self.gpus_per_worker or 0.0,
            memory=self.memory_per_worker or 0,
        )

    @property
    def ranks(self) -> Ranks | None:
        """How many workers, and what each asks for; None where nothing is said of workers."""
        workers = self.pod_set
        return None if workers is None else (workers.count, {"CPU": workers.cpus, "GPU": workers.gpus})


def owner() -> str:
    """The user who submits; empty where the system has no name for them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""


@dataclass(frozen=True)
class QueuedSubmission:
    """A submission with what it asks of a queue, and the recipe that it is of."""

    submission: Submission
    request: QueueRequest
    recipe: Recipe | None = None


def usual(asked: QueueRequest | None, queue: str, command: Submission | None = None) -> QueueRequest | None:
    """The request of a job in a lab whose jobs go into `queue` when they name none; no-op if that is empty.

    A command that does not say what it takes counts as one worker then.
    """
    if not queue or (asked is not None and asked.queue):
        return asked
    silent = command is not None and not command.num_cpus and not command.num_gpus
    request = QueueRequest(queue) if asked is None else replace(asked, queue=queue)
    return replace(request, workers=1) if silent else request


def refuse_past_queues(spec: LabSpec) -> None:
    """Refuse a job past the queues in a lab that takes jobs only through them. Raises RefusedError."""
    if spec.queued_only:
        raise RefusedError(
            "this lab takes jobs only through queues: it was started with --queued-only",
            "name one: labctl submit --queue QUEUE; `labctl queue` lists them",
        )


def of_command(submission: Submission, request: QueueRequest) -> QueuedSubmission:
    """A command for a queue. Raises UsageError where it does not say what it takes: no quota would hold."""
    if request.queue and not request.asks_for_workers and not submission.num_cpus and not submission.num_gpus:
        raise UsageError(
            "the job does not say what it needs, so no quota would limit it",
            "for example --workers 2 --gpus-per-worker 1, or --num-gpus 1 for a script without workers",
        )
    return QueuedSubmission(submission, request)


def of_recipe(
    recipe: Recipe,
    settings: Mapping[str, str],
    request: QueueRequest,
    gpus: float,
    num_cpus: float = 0,
    num_gpus: float = 0,
    job_name: str = "",
) -> QueuedSubmission:
    """A recipe for a queue: it asks for what it takes with these settings.

    Where it would take a GPU for each rank if the lab has enough, that is decided here by `gpus`, the lab's,
    and written down: what runs is what was asked for. Raises UsageError, also for amounts that -p says.
    """
    _refuse_flags(recipe, request)
    ranks, per_rank = recipe.demand(settings)
    parameter = recipe.resources.get("GPU")
    if parameter is not None and "GPU" not in per_rank:
        per_rank = {**per_rank, "GPU": 1.0 if gpus >= ranks else 0.0}
        settings = {**settings, parameter: f"{per_rank['GPU']:g}"}
    wanted = replace(
        request, workers=ranks, gpus_per_worker=per_rank.get("GPU"), cpus_per_worker=per_rank.get("CPU")
    )
    return QueuedSubmission(recipe.submission(settings, num_cpus, num_gpus, job_name), wanted, recipe)


def _refuse_flags(recipe: Recipe, request: QueueRequest) -> None:
    resources = recipe.resources
    for option, given, parameter in (
        ("--workers", request.workers, recipe.ranks),
        ("--gpus-per-worker", request.gpus_per_worker, resources.get("GPU", "")),
        ("--cpus-per-worker", request.cpus_per_worker, resources.get("CPU", "")),
    ):
        if given is not None:
            hint = f"write -p {parameter}={given:g}" if parameter else "leave it out: its script decides"
            raise UsageError(f"{option} {given:g}: the recipe {recipe.name} sets that itself", hint)
    if request.min_workers is not None and not recipe.ranks:
        raise UsageError(f"--min-workers: the recipe {recipe.name} has no parameter for its workers")
