"""gpus: the GPUs of this machine, the plan, and what workers see; the options of every command that plans."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lab.cli import documents, render, values
from lab.cli.context import GPUS, App, LabCommand, options, pass_app
from lab.errors import LabError, PinningError
from lab.host.gpus import Detection, GpuHolder, sharing_note
from lab.runtime.leases import holders
from lab.runtime.spec import Asked, gpus_here, spec_of
from lab.topology import MAX_WORKERS, GpuPlan, Vendor

if TYPE_CHECKING:
    from lab.api.shown_here import GpusHere
    from lab.flows.doctor.pinning import WorkerView

NO_DEVICE = {
    Vendor.SIMULATED: "simulated: a number for Ray's scheduler, with no device behind it",
    Vendor.NONE: "no GPU",
}


def gpu_options(command: Callable[..., object]) -> Callable[..., object]:
    """Give a command --gpu, --gpus and --share-gpu, as the one argument `asked`."""

    @functools.wraps(command)
    def with_asked(
        *args: object, gpu: str | None, gpus: str | None, share_gpu: bool, **rest: object
    ) -> object:
        named = () if gpus is None else values.names(gpus, "--gpus", "GPU-5c0d,GPU-8e1a or 0,1", "GPU")
        return command(*args, asked=Asked(gpu=gpu, gpus=named, share_gpu=share_gpu), **rest)

    return options(
        click.option("--gpu", type=click.Choice(GPUS), help="GPUs of the workers. [default: auto]"),
        click.option(
            "--gpus", type=values.Text(), metavar="GPU,GPU",
            help="GPUs to use, in the workers' order; see `labctl gpus`.",
        ),
        click.option(
            "--share-gpu", is_flag=True,
            help="Let workers share GPUs if there are too few: without memory limits, and without NCCL.",
        ),
    )(with_asked)  # fmt: skip


def say_plan(app: App, plan: GpuPlan) -> None:
    """Show the plan and its reason on stderr, and what it means that workers share a GPU."""
    if plan.reason:
        app.out.note(f"GPU: {plan.vendor.value} ({plan.reason})")
    sharing = sharing_note(plan)
    if sharing:
        app.out.warn(sharing)


@click.command(cls=LabCommand)
@gpu_options
@click.option(
    "--workers", type=values.WholeNumber(1, MAX_WORKERS), metavar="N",
    help="Ray nodes that train.  [default: those of the lab when it is up, else 2]",
)  # fmt: skip
@pass_app
def gpus(app: App, asked: Asked, workers: int | None) -> None:
    """Show the GPUs, and which one each worker gets.

    If the lab is up, asks every worker which GPU it really sees. Exits with 17 when a worker sees none,
    another than planned, or the same as another worker; with 14 when there is no plan.
    """
    from lab.flows.doctor import pinning

    lab = app.open()
    running = lab.view.spec() if lab.status().up else None
    detections, held = gpus_here(lab.view.kind), holders()
    error: LabError | None = None
    plan: GpuPlan | None = None
    try:
        plan = spec_of(lab.view, replace(asked, workers=workers)).gpu
    except LabError as caught:
        error = caught
    views = pinning.look(lab.control, lab.api.nodes()) if running else ()
    if error is None:
        try:
            pinning.check(views)
        except PinningError as caught:
            error = caught
    document = _document(detections, held, plan, lab.name, views if running else None)
    if not app.out.json_wanted:
        _show(app, detections, held, plan)
        if running:
            _show_views(app, views, running.gpu)
    elif error is None:
        app.out.document(document)
    if error is not None:
        app.out.complain(error, document)
        raise click.exceptions.Exit(error.exit_code)


def _document(
    detections: Sequence[Detection],
    held: Mapping[str, GpuHolder],
    plan: GpuPlan | None,
    name: str,
    views: Sequence[WorkerView] | None,
) -> GpusHere:
    return {
        "gpus": [
            documents.gpu(gpu, held.get(gpu.device)) for detection in detections for gpu in detection.gpus
        ],
        "problems": [detection.problem for detection in detections if detection.problem],
        "plan": None if plan is None else documents.gpu_plan(plan),
        "lab": {
            "name": name,
            "up": views is not None,
            "workers": [documents.worker_view(view) for view in views or ()],
        },
    }


def _show(
    app: App, detections: Sequence[Detection], held: Mapping[str, GpuHolder], plan: GpuPlan | None
) -> None:
    here = [gpu for detection in detections for gpu in detection.gpus]
    if here:
        rows = (
            (g.vendor.value, g.index, g.uuid, g.label, _nodes(g.device_nodes), held.get(g.device) or "")
            for g in here
        )
        app.out.show(render.table(("GPU", "INDEX", "UUID", "NAME", "DEVICE", "HELD BY"), rows))
    else:
        app.out.line("this machine has no GPU that a lab can use")
    for detection in detections:
        if detection.problem:
            hint = f" -> {detection.hint}" if detection.hint else ""
            app.out.advise(f"note: {detection.problem}{hint}")
    if plan is None:
        return
    app.out.line()
    app.out.sentence(f"plan: {plan.vendor.value}{f' ({plan.reason})' if plan.reason else ''}")
    for assignment in plan.assignments:
        device = f"GPU {assignment.gpu}, {assignment.name}" if assignment.gpu else NO_DEVICE[plan.vendor]
        app.out.sentence(f"  {assignment.service}: {device}")
    sharing = sharing_note(plan)
    if sharing:
        app.out.sentence(f"note: {sharing}")


def _nodes(nodes: Sequence[str]) -> str:
    """The GPU's own device file; the others are shared by all."""
    own = [node for node in nodes if node.rstrip("0123456789") != node]
    return own[0] if own else ""


def _show_views(app: App, views: Sequence[WorkerView], plan: GpuPlan) -> None:
    app.out.line()
    app.out.line("what the workers of the lab that is up see:")
    rows = (
        (
            view.service,
            ", ".join(f"{seen.gpu} ({seen.name})" for seen in view.seen) or _nothing(plan),
            "" if view.ray_gpus is None else f"{view.ray_gpus:g} GPU",
            "failed" if view.problem else "passed",
        )
        for view in views
    )
    app.out.show(render.table(("SERVICE", "SEES", "RAY COUNTS", "RESULT"), rows))


def _nothing(plan: GpuPlan) -> str:
    return "no device (none is planned)" if plan.vendor in NO_DEVICE else "no GPU"


COMMANDS = (gpus,)
