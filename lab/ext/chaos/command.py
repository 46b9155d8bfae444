"""chaos: one fault after another while a job trains, and what came of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.api.base import plain
from lab.cli import format, render, values
from lab.cli.commands.faults import control_option, warn_of_broken
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.live import Story
from lab.cli.receipt_panel import WEIGHTS
from lab.errors import UsageError, VerdictError
from lab.host.interrupts import exit_code
from lab.topology import JOB_FINAL

if TYPE_CHECKING:
    from lab.ext.chaos.result import ChaosResult, StepResult

DEFAULT_FAULTS = "kill,pause,s3-slow"
MAX_FAULTS = 100_000
MAX_SEED = 1_000_000_000


@click.command(cls=LabCommand)
@click.option(
    "--faults", "names", type=values.Text(), metavar="FAULTS",
    help=f"Faults to draw from; see `labctl fault-inject --list`. With commas. [default: {DEFAULT_FAULTS}]",
)  # fmt: skip
@click.option(
    "--schedule",
    metavar="FILE",
    type=values.Place(),
    help="A YAML file that says which fault comes when.",
)
@click.option(
    "--every", type=values.Duration(), metavar="TIME", help="Time from one fault to the next. [default: 30s]"
)
@click.option(
    "--seed", type=values.WholeNumber(0, MAX_SEED), metavar="N",
    help="The same seed draws the same faults in the same order. [default: 0]",
)  # fmt: skip
@click.option(
    "--for", "seconds", type=values.Duration(), metavar="TIME",
    help="Inject nothing after this long. [default: go on until the job ends]",
)  # fmt: skip
@click.option(
    "--limit", type=values.WholeNumber(1, MAX_FAULTS), metavar="N", help="Inject at most this many faults."
)
@click.option(
    "-p", "pairs", type=values.Text(), multiple=True, metavar="FAULT.NAME=NUMBER",
    help="A parameter of one of the faults; see `labctl fault-inject --list`.",
)  # fmt: skip
@click.option("--below-one-worker", is_flag=True, help="Let a fault hit the last healthy worker, too.")
@click.option(
    "--job", "job_id", type=values.Text(), metavar="ID",
    help="Job to disturb. [default: the one that runs]",
)  # fmt: skip
@control_option
@pass_app
def chaos(
    app: App,
    names: str | None,
    schedule: Path | None,
    every: float | None,
    seed: int | None,
    seconds: float | None,
    limit: int | None,
    pairs: tuple[str, ...],
    below_one_worker: bool,
    job_id: str | None,
    control: bool,
) -> None:
    """Break one thing after another, and judge each recovery.

    A job must be training. Every fault is undone, and training goes on, before the next one comes.
    Exits with 0 only when the job finished, every fault was survived, no checkpoint was lost and, with
    --control, the weights are the same; else with 10. Ctrl-C undoes the current fault and shows the results
    so far.
    """
    from lab.ext.chaos.plan import Plan
    from lab.ext.chaos.run import run_chaos
    from lab.ext.chaos.schedule import read_schedule

    warn_of_broken(app)
    if schedule is not None:
        drawn = {"--faults": names, "--every": every, "--seed": seed, "-p": pairs or None}
        given = next((flag for flag, value in drawn.items() if value is not None), None)
        if given:
            raise UsageError(
                f"--schedule and {given} cannot be used together", "the file says it; see docs/chaos.md"
            )
        plan = read_schedule(schedule)
        plan = dataclasses.replace(
            plan,
            limit=plan.limit if limit is None else limit,
            seconds=plan.seconds if seconds is None else seconds,
            below_one=plan.below_one or below_one_worker,
        )
    else:
        plan = Plan(
            values.names(DEFAULT_FAULTS if names is None else names, "--faults", DEFAULT_FAULTS, "fault"),
            every=30.0 if every is None else every,
            seed=seed or 0,
            limit=limit,
            seconds=seconds,
            parameters=parameters(pairs),
            below_one=below_one_worker,
        )
    lab = app.open()
    try:
        with Story(app.out, live=False) as story:
            result = run_chaos(lab, plan, story.moment, job=job_id or "", control=control)
    except KeyboardInterrupt:
        app.out.note("no verdict: the job goes on (labctl jobs); labctl heal undoes a fault that is left")
        raise
    if not app.out.as_json(plain(result.document())):
        show(app, result)
    finish(app, result)


def parameters(pairs: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Parse `s3-slow.delay=0.5` as fault -> parameter -> number. Raises UsageError."""
    by_fault: dict[str, dict[str, float]] = {}
    for name, value in values.numbers(pairs).items():
        fault, dot, parameter = name.partition(".")
        if not (fault and dot and parameter):
            raise UsageError(f"-p {name}={value:g}: must be FAULT.NAME=NUMBER", "-p s3-slow.delay=0.5")
        by_fault.setdefault(fault, {})[parameter] = value
    return by_fault


def show(app: App, result: ChaosResult) -> None:
    """Print a line for each fault, then the sum."""
    key = next((step.receipt.epoch_key for step in result.injected if step.receipt), None) or "epoch"
    columns = ("NUMBER", "FAULT", "TARGET", "VERDICT", "NEXT REPORT", f"{key.upper()}S REPEATED")
    rows = [_row(number, step) for number, step in enumerate(result.steps, 1)]
    if rows:
        app.out.show(render.table(columns, rows), width=render.SENTENCES)
        app.out.line()
    for number, step in enumerate(result.steps, 1):
        if step.skipped:
            app.out.sentence(f"{number} left out: {step.skipped}")
        elif step.receipt and not step.receipt.verdict.good:
            app.out.sentence(f"{number} {step.receipt.verdict.value}: {step.receipt.reason}")
    for problem in result.problems:
        app.out.sentence(f"problem: {problem}")
    lost = f", {len(result.lost)} lost: {', '.join(result.lost)}" if result.lost else ", none lost"
    left_out, weights = len(result.steps) - len(result.injected), result.weights or ""
    render.pairs(
        app.out,
        (
            ("job", f"{result.job} {result.status}".strip()),
            ("faults", f"{len(result.injected)} injected, {result.survived} survived, {left_out} left out"),
            ("downtime", format.seconds(result.downtime)),
            ("done twice", f"{result.repeated:g} {key}s"),
            ("checkpoints", f"{result.checkpoints} committed{lost}"),
            ("weights", weights and f"compared with an undisturbed run: {WEIGHTS.get(weights, weights)}"),
        ),
    )


def _row(number: int, step: StepResult) -> tuple[object, ...]:
    if step.receipt is None:
        return number, step.step.kind, step.target, "left out", "", ""
    repeated = step.receipt.lost_epochs
    shown = "" if repeated is None else f"{repeated:g}"
    return (
        number,
        step.step.kind,
        step.target,
        step.receipt.verdict.value,
        format.seconds(step.downtime),
        shown,
    )


def finish(app: App, result: ChaosResult) -> None:
    """Exit with the code of the result."""
    if result.interrupt is not None:
        app.out.note(
            f"interrupted: job {result.job} had ended, so the verdicts above are final"
            if result.status in JOB_FINAL
            else f"interrupted: job {result.job} goes on, so no verdict above is final; to end it: "
            + app.out.about(f"labctl jobs stop {result.job}")
        )
        raise click.exceptions.Exit(exit_code(result.interrupt))
    if result.failure:
        app.fail(VerdictError(f"chaos was not survived: {result.failure}", f"labctl jobs logs {result.job}"))


COMMANDS = (chaos,)
