"""The options that choose GPUs, shared by the commands that plan a lab."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from lab.cli import values
from lab.cli.context import GPUS, App
from lab.spec import Asked

if TYPE_CHECKING:
    from lab.topology import GpuPlan


def gpu_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--gpu, --gpus and --share-gpu, as the one argument `asked`."""

    @functools.wraps(command)
    def with_asked(*args: Any, gpu: str | None, gpus: str | None, share_gpu: bool, **rest: Any) -> Any:
        return command(*args, asked=Asked(gpu, values.gpu_names(gpus), share_gpu), **rest)

    wrapped: Callable[..., Any] = with_asked
    for option in (
        click.option(
            "--share-gpu", is_flag=True,
            help="Let workers share GPUs where there are too few: without limits, and without NCCL.",
        ),
        click.option(
            "--gpus", type=values.Text(), metavar="GPU,GPU",
            help="Which ones, in the workers' order; see `labctl gpus`.",
        ),
        click.option(
            "--gpu", type=click.Choice(GPUS), help="GPUs of the workers. [default: auto]"
        ),
    ):  # fmt: skip
        wrapped = option(wrapped)
    return wrapped


def say_plan(app: App, plan: GpuPlan) -> None:
    """The plan and its reason, on stderr, and what it means that workers share a GPU."""
    from lab.host.gpus import sharing_note

    if plan.reason:
        app.out.note(f"GPU: {plan.vendor.value} ({plan.reason})")
    sharing = sharing_note(plan)
    if sharing:
        app.out.warn(sharing)
