"""demo: the lab's whole story in one command."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from lab.api.base import plain
from lab.cli import receipt_panel, render, values
from lab.cli.commands.faults import judge, strict_option, warn_of_broken
from lab.cli.commands.gpus import gpu_options
from lab.cli.commands.lab import prepare
from lab.cli.complete import fault_names
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.live import ProgressLines, Story
from lab.errors import LabError
from lab.runtime.spec import Asked

if TYPE_CHECKING:
    from lab.flows.demo import DemoResult
    from lab.lab import Lab

MAX_EPOCHS = 1000


@click.command(cls=LabCommand)
@gpu_options
@click.option(
    "--fault", "kind", type=values.Text(), default="kill", show_default=True, metavar="FAULT",
    shell_complete=fault_names,
    help="Fault to inject, of a node or a training process; see `labctl fault-inject --list`.",
)  # fmt: skip
@click.option(
    "--workers", type=values.WholeNumber(1, 2), default=1, show_default=True, metavar="N",
    help="Ray Train workers (ranks) of the job: 1 or 2.",
)  # fmt: skip
@click.option("--epochs", type=values.WholeNumber(2, MAX_EPOCHS), metavar="N", help="Epochs to train.")
@click.option("--down", is_flag=True, help="Stop the lab afterwards.")
@click.option(
    "--control/--no-control", default=True,
    help="Train once more without a fault and compare the weights, or do not. [default: control]",
)  # fmt: skip
@strict_option
@pass_app
def demo(
    app: App,
    asked: Asked,
    kind: str,
    workers: int,
    epochs: int | None,
    down: bool,
    control: bool,
    strict: bool,
) -> None:
    """Start the lab, train, lose a node, and prove the recovery.

    Exits with 0 only when the verdict is `recovered`, `resumed` or `as-expected` and the undisturbed run did
    not fail; see --strict. With --json, stdout has two documents, one per line: how the demo went, and
    last the receipt. JupyterLab is started last, and installed first if it is missing; --down
    leaves it out.
    """
    from lab.faults import find_fault
    from lab.flows.demo import DemoRequest, run_demo

    find_fault(kind)
    warn_of_broken(app)
    lab, spec = prepare(app, asked)
    chosen: dict[str, int] = {} if epochs is None else {"epochs": epochs}
    wanted = DemoRequest(fault=kind, workers=workers, control=control, **chosen)
    try:
        try:
            with Story(app.out) as story:
                result = run_demo(lab, spec, wanted, story.progress, story.moment)
        except (KeyboardInterrupt, LabError):
            if not down:
                _say_what_runs_on(app, lab)
            raise
        _show(app, result, "" if down else dashboard(lab), down=down)
        if not down:
            _start_the_rest(app, lab)
        judge(app, result.receipt, strict=strict)
        if result.problem is not None:
            app.fail(result.problem)
    finally:
        if down:
            lab.down(on_progress=ProgressLines(app.out).progress)


def _say_what_runs_on(app: App, lab: Lab) -> None:
    """Say that the lab and its jobs run on, and how to end them; nothing where no lab is left."""
    jobs: list[str] = []
    with contextlib.suppress(LabError):
        if not lab.status().up:
            return
        jobs = [job.submission_id for job in lab.jobs.list() if not job.final]
    running = f", and job {', '.join(jobs)} in it" if jobs else ""
    ending = lab.view.advice([*(f"jobs stop {job}" for job in jobs), "down"], "")
    app.out.note(f"lab {lab.name} runs on{running}; end {'them' if jobs else 'it'}: {ending}")


def _show(app: App, result: DemoResult, address: str, *, down: bool) -> None:
    document, control = result.receipt, result.control
    if app.out.json_wanted:
        same = control and {"weights": control.comparison.weights, "detail": control.comparison.detail}
        about = {"seconds": dict(result.seconds), "comparison": same, "dashboard": address}
        app.out.document({"demo": about}, compact=True)
        app.out.document(plain(document), compact=True)
    else:
        receipt_panel.show(app.out, document)
        _show_more(app, result, address, down=down)


def _start_the_rest(app: App, lab: Lab) -> None:
    """Start what the demo did not need. A failure is told, and is no failure of the demo."""
    try:
        lab.runtime.start_left_out(ProgressLines(app.out).progress)
    except LabError as error:
        app.out.warn(f"the demo is done, but not all of the lab runs: {error.message}", error.hint)


def _show_more(app: App, result: DemoResult, address: str, *, down: bool) -> None:
    if result.control is not None:
        comparison = result.control.comparison
        app.out.line()
        weights = receipt_panel.WEIGHTS.get(comparison.weights, comparison.weights)
        app.out.line(f"weights, compared with an undisturbed run: {weights}")
        if comparison.detail:
            app.out.line(f"  {comparison.detail}")
    if result.seconds:
        app.out.line()
        took = [(name, f"{value:.1f} s") for name, value in result.seconds.items()]
        app.out.show(render.table(("PHASE", "TOOK"), took))
    if down:
        return
    app.out.line()
    job_id = result.receipt.job.submission_id
    rows = (
        ("dashboard", address),
        ("its token", "labctl status --addresses" if address else ""),
        ("break it again", "labctl submit digits --detach, then labctl fault-inject ray-worker-0"),
        ("the job's log", f"labctl jobs logs {job_id}"),
        ("what was saved", f"labctl jobs checkpoints {job_id}"),
        ("stop the lab", "labctl down"),
    )
    render.pairs(app.out, ((name, app.out.about(value)) for name, value in rows))


def dashboard(lab: Lab) -> str:
    """Address of Ray's dashboard, or empty when the lab is gone."""
    try:
        return lab.endpoints().dashboard
    except LabError:
        return ""


COMMANDS = (demo,)
