"""Options of `submit` for a job that waits in a queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lab.cli import values
from lab.cluster.queue_request import MOST_AMOUNT, MOST_WORKERS, QueueRequest
from lab.errors import UsageError

LONGEST = 10 * 366 * 24 * 3600.0
MOST_GRACE = 3600.0


class Memory(click.ParamType[int]):
    """An amount of memory as Kubernetes writes it, in bytes."""

    name = "memory"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes. Raises UsageError."""
        from lab.queue.quantity import amount

        try:
            found = amount("memory", str(value).strip())
        except ValueError:
            found = 0
        if found <= 0:
            raise UsageError(
                f"--memory-per-worker {value}: not an amount of memory", "write 512Mi, 4Gi or 4G"
            )
        return found


OPTIONS = (
    click.option("--queue", "queue", type=values.Text(), metavar="QUEUE",
                 help="Wait in this LocalQueue for quota: NAME or NAMESPACE/NAME."),
    click.option("--priority", type=values.Text(), metavar="CLASS",
                 help="WorkloadPriorityClass of the job in its queue."),
    click.option("--max-time", type=values.Duration(most=LONGEST), metavar="TIME",
                 help="Stop it after so long, such as 30m; others then know when they can start."),
    click.option("--workers", type=values.WholeNumber(1, MOST_WORKERS), metavar="N",
                 help="Workers that a command is going to have. A recipe says it with -p."),
    click.option("--min-workers", type=values.WholeNumber(1, MOST_WORKERS), metavar="N",
                 help="Start with as few workers as this, where there is no room for all."),
    click.option("--gpus-per-worker", type=values.Amount(MOST_AMOUNT), metavar="N",
                 help="GPUs of each worker of a command. [default: 0]"),
    click.option("--cpus-per-worker", type=values.Amount(MOST_AMOUNT), metavar="N",
                 help="Logical CPUs of each worker of a command. [default: 1]"),
    click.option("--memory-per-worker", type=Memory(), metavar="SIZE",
                 help="Memory of each worker, such as 4Gi, where the queue counts it."),
    click.option("--enforce", is_flag=True, help="End the job if it takes more than it asked for."),
    click.option("--preemption-grace", type=values.Duration(zero=True, most=MOST_GRACE), metavar="TIME",
                 help="Wait so long for a checkpoint before it is preempted. [default: 20s]"),
    click.option("--dry-run", is_flag=True,
                 help="Say if the job would start now, or why it would wait and until when; submit nothing."),
)  # fmt: skip


def queue_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give `submit` these options."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def queue_request(*, queue: str | None, dry_run: bool, enforce: bool, **asked: Any) -> QueueRequest | None:
    """Request of a queue; None for a job past the queues. Raises UsageError for options without a queue."""
    if queue is None:
        given = [name for name, value in asked.items() if value is not None]
        given += [name for name, value in (("enforce", enforce), ("dry_run", dry_run)) if value]
        if given:
            raise UsageError(
                f"--{given[0].replace('_', '-')}: only with --queue", "which queues there are: labctl queue"
            )
        return None
    asked["priority"] = asked["priority"] or ""
    return QueueRequest(queue, enforce=enforce, **asked)
