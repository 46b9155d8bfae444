"""Options of `submit` for a job that waits in a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from lab.api.queue_requests import CEILING_SECONDS, MOST_RETRIES, MOST_TTL_SECONDS
from lab.cli import values
from lab.cli.context import options
from lab.cluster.queue_request import MOST_AMOUNT, MOST_WORKERS, QueueRequest
from lab.cluster.retries import RetryPolicy, exit_codes, of_annotations
from lab.errors import UsageError
from lab.host.reading import SMALL, read_text

LONGEST = 10 * 366 * 24 * 3600.0
MOST_GRACE = 3600.0


class ExitCodes(click.ParamType[tuple[int, ...]]):
    """A list of exit codes such as 2,3."""

    name = "codes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The codes. Raises UsageError."""
        return exit_codes(str(value), param.opts[0] if param is not None else "exit codes")


queue_options = options(
    click.option("--queue", "queue", type=values.Text(), metavar="QUEUE",
                 help="Wait in this LocalQueue for quota: NAME or NAMESPACE/NAME."),
    click.option("--priority", type=values.Text(), metavar="CLASS",
                 help="WorkloadPriorityClass of the job in its queue."),
    click.option("--max-time", type=values.Duration(most=LONGEST), metavar="TIME",
                 help="Stop it after this long, such as 30m, with or without a queue; jobs that wait for it "
                      "then learn when they will start."),
    click.option("--workers", type=values.WholeNumber(1, MOST_WORKERS), metavar="N",
                 help="Number of workers that a command will have; for a recipe use -p."),
    click.option("--min-workers", type=values.WholeNumber(1, MOST_WORKERS), metavar="N",
                 help="Start with as few workers as this if there is no room for all."),
    click.option("--gpus-per-worker", type=values.Amount(MOST_AMOUNT), metavar="N",
                 help="GPUs of each worker of a command. [default: 0]"),
    click.option("--cpus-per-worker", type=values.Amount(MOST_AMOUNT), metavar="N",
                 help="Logical CPUs of each worker of a command. [default: 1]"),
    click.option("--memory-per-worker", type=values.MemorySize(), metavar="SIZE",
                 help="Memory of each worker, such as 4Gi, where the queue counts it."),
    click.option("--enforce", is_flag=True, help="End the job if it takes more than it asked for."),
    click.option("--preemption-grace", type=values.Duration(zero=True, most=MOST_GRACE), metavar="TIME",
                 help="Wait this long for a checkpoint before it is preempted. [default: 20s]"),
    click.option("--retry-limit", type=values.WholeNumber(0, MOST_RETRIES), metavar="N",
                 help="Restarts from its checkpoint, after failures, at most. [default: 3]"),
    click.option("--retry-pause", type=values.Duration(zero=True, most=CEILING_SECONDS), metavar="TIME",
                 help="Wait this long before each restart; the job keeps its quota. [default: 90s]"),
    click.option("--warmup", type=values.Duration(zero=True, most=CEILING_SECONDS), metavar="TIME",
                 help="Longest time until an attempt holds all that the job was granted. [default: 5m]"),
    click.option("--failure-grace", type=values.Duration(zero=True, most=CEILING_SECONDS), metavar="TIME",
                 help="Longest time for Ray Train to bring back ranks that were lost. [default: 1m]"),
    click.option("--terminal-exit-codes", type=ExitCodes(), metavar="LIST",
                 help="Exit codes after which the job has failed for good, such as 2,3."),
    click.option("--retryable-exit-codes", type=ExitCodes(), metavar="LIST",
                 help="The only exit codes after which it is restarted. [default: all]"),
    click.option("--success-ttl", type=values.Duration(zero=True, most=MOST_TTL_SECONDS), metavar="TIME",
                 help="Forget the job this long after it succeeded. [default: 168h]"),
    click.option("--annotations", type=values.Place(), metavar="FILE",
                 help="Take the retry policy from the annotations of an AppWrapper; options override it."),
    click.option("--dry-run", is_flag=True,
                 help="Say if the job would start now, or why it would wait and until when; submit nothing."),
)  # fmt: skip


RETRY = {
    "retry_limit": "limit",
    "retry_pause": "pause",
    "warmup": "warmup",
    "failure_grace": "failure_grace",
    "terminal_exit_codes": "terminal_exit_codes",
    "retryable_exit_codes": "retryable_exit_codes",
    "success_ttl": "success_ttl",
}
"""Option -> field of the retry policy."""


def retry_policy(asked: dict[str, Any], warn: Callable[[str], None]) -> RetryPolicy | None:
    """The policy that options and annotations ask for; those options are taken out of `asked`.

    None where there are none of them. Raises UsageError.
    """
    path = asked.pop("annotations")
    given = {field: asked.pop(option) for option, field in RETRY.items()}
    given = {field: value for field, value in given.items() if value is not None}
    if path is not None:
        annotated, left_out = read_annotations(path)
        for annotation in left_out:
            warn(f"{path}: annotation {annotation} is left out: Ray's jobs have no pods")
        given = {**annotated, **given}
    return RetryPolicy(**given) if given or path is not None else None


def read_annotations(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a retry policy that a YAML file names, and annotations of AppWrapper that are left out.

    The file is a manifest with `metadata.annotations`, or a mapping of annotations. Raises UsageError.
    """
    from kueue.reading.plain import values

    try:
        documents = values(read_text(path, SMALL))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    wrappers = [
        document
        for document in documents
        if isinstance(document, Mapping) and document.get("kind") == "AppWrapper"
    ]
    if len(wrappers or documents) != 1:
        raise UsageError(f"{path}: has {len(wrappers or documents)} documents; one AppWrapper is expected")
    (chosen,) = wrappers or documents
    if isinstance(chosen, Mapping) and "kind" in chosen:
        meta = chosen.get("metadata")
        chosen = (meta.get("annotations") if isinstance(meta, Mapping) else None) or {}
    if not isinstance(chosen, Mapping):
        raise UsageError(
            f"{path}: not a mapping of annotations", "workload.codeflare.dev.appwrapper/retryLimit: '3'"
        )
    return of_annotations(chosen, str(path))


def queue_request(
    *, queue: str | None, dry_run: bool, enforce: bool, warn: Callable[[str], None], **asked: Any
) -> QueueRequest | None:
    """Request of a queue; None for a job that the controller of the queues knows nothing of.

    Raises UsageError for options without a queue.
    """
    retry = retry_policy(asked, warn)
    if queue is None:
        max_time = asked.pop("max_time")
        given = [name for name, value in asked.items() if value is not None]
        given += [name for name, value in (("enforce", enforce), ("dry_run", dry_run)) if value]
        if given:
            raise UsageError(
                f"--{given[0].replace('_', '-')}: only with --queue", "`labctl queue` lists the queues"
            )
        watched = retry is not None or max_time is not None
        return QueueRequest("", max_time=max_time, retry=retry) if watched else None
    asked["priority"] = asked["priority"] or ""
    return QueueRequest(queue, enforce=enforce, retry=retry, **asked)
