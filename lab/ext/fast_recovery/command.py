"""ladder: one training loses one rank, under one way of recovery after the other, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.api.base import plain
from lab.cli import format, render, values
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.live import Story
from lab.errors import UsageError, VerdictError
from lab.host import environment
from lab.host.interrupts import exit_code

if TYPE_CHECKING:
    from lab.ext.fast_recovery.ladder import Ladder

FAULTS = ("rank-kill", "kill")
MAX_RUNS = 100


@click.command(cls=LabCommand)
@click.option(
    "--rungs", "names", type=values.Text(), metavar="RUNGS",
    help="Some of: stock, settings, forked, elastic, memory, torchft, with commas. [default: all]",
)  # fmt: skip
@click.option(
    "--runs", type=values.WholeNumber(1, MAX_RUNS), default=1, show_default=True, metavar="N",
    help="Climb this many times; the table has the medians.",
)  # fmt: skip
@click.option(
    "--fault", type=click.Choice(FAULTS), default=FAULTS[0], show_default=True,
    help="Loss to cause: of a rank's process, or of its node.",
)  # fmt: skip
@click.option(
    "--png", type=values.Place(), metavar="FILE", help="Draw who stepped when on every rung into this file."
)
@pass_app
def ladder(app: App, names: str | None, runs: int, fault: str, png: Path | None) -> None:
    """Lose the same rank under six ways of recovery, side by side.

    It has a lab of its own, NAME-ladder, which is taken down at the end; yours is left alone. Ctrl-C ends it
    early and shows what was measured so far. Progress says how many minutes are left. Exits with 10 if
    a rung went wrong; what this machine cannot do is not a failure, and is listed with the reason.
    """
    from lab.ext.fast_recovery.ladder import LadderRequest, climb, lab_of, picture

    rungs = () if names is None else values.names(names, "--rungs", "stock,torchft", "rung")
    wanted = LadderRequest(rungs, fault, runs)
    if png is not None:
        if not png.absolute().parent.is_dir():
            raise UsageError(f"--png {png}: there is no folder {png.absolute().parent}", "make it first")
        environment.ensure("report", app.out.note)
    lab = app.opener(app.runtime, lab_of(app.name))
    with Story(app.out, live=False) as story:
        climbed = climb(lab, wanted, story.progress, story.moment, app.out.note)
    drawn = None if png is None else picture(climbed)
    if png is not None and drawn is not None:
        try:
            png.write_bytes(drawn)
        except OSError as error:
            app.out.warn(f"the picture cannot be written to {png}: {error.strerror}")
    if not app.out.as_json(plain(climbed.document())):
        show(app, climbed)
    if climbed.interrupt is not None:
        app.out.note("interrupted: the ladder's lab is down; the results so far stand above")
        raise click.exceptions.Exit(exit_code(climbed.interrupt))
    if climbed.failures:
        first = climbed.failures[0]
        hint = f"labctl ladder --rungs {first.rung.name} repeats it"
        app.fail(VerdictError(f"the rung {first.rung.name} went wrong: {first.reason}", hint))


def show(app: App, climbed: Ladder) -> None:
    """Print the table of medians, and what could not be measured."""
    columns = ("RUNG", "DETECTED", "LONGEST GAP", "ALL BACK", "STEPS TWICE", "STORED", "SENT", "STEPS/S", "")
    rows = []
    for rung in climbed.rungs:
        median = {name: climbed.median(rung, name) for name in ("detected", "longest_gap", "all_back")}
        seconds = [
            "" if value is None else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
            for value in median.values()
        ]
        repeated, speed = climbed.median(rung, "steps_repeated"), climbed.median(rung, "steps_per_second")
        sizes = [climbed.median(rung, name) for name in ("stored_bytes", "sent_bytes")]
        rows.append(
            (
                rung.name,
                *seconds,
                "" if repeated is None else f"{repeated:g}",
                *("" if not size else format.size(size) for size in sizes),
                "" if speed is None else f"{speed:.0f}",
                rung.summary,
            )
        )
    app.out.show(render.table(columns, rows), width=render.SENTENCES)
    for attempt in climbed.attempts:
        if attempt.reason:
            what = "not possible here" if attempt.impossible else attempt.verdict or "not measured"
            app.out.sentence(f"{attempt.rung.name}, run {attempt.run}: {what}: {attempt.reason}")


COMMANDS = (ladder,)
