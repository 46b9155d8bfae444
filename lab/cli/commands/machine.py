"""doctor, test: this machine and labctl itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lab.api.base import plain
from lab.cli import render, values
from lab.cli.context import AFTER_DASHES, App, DashCommand, LabCommand, pass_app
from lab.cli.output import coloured
from lab.errors import CheckError, UnsupportedError
from lab.host import environment
from lab.topology import Check

if TYPE_CHECKING:
    from lab.api.shown_here import Diagnosis


@click.command(cls=LabCommand)
@click.option(
    "--report", "bug_report", is_flag=True,
    help="Print versions and checks as JSON for a bug report, without any secret.",
)  # fmt: skip
@pass_app
def doctor(app: App, bug_report: bool) -> None:
    """Check this machine, and the lab when it is up. Exits with 15 when a check fails."""
    from lab.flows.doctor import run_checks

    checks = _with_lab(app, run_checks(app.name, app.runtime))
    ok = all(check.outcome != "failed" for check in checks)
    document: Diagnosis = {"ok": ok, "checks": plain(checks)}
    if bug_report:
        from lab.flows.doctor import report

        app.out.document(report.bug_report(document["checks"]))
    _show(app, checks, document, shown=bug_report)


def _with_lab(app: App, checks: Sequence[Check]) -> tuple[Check, ...]:
    """The same, with the lab's name in the commands of their hints."""
    return tuple(replace(check, hint=app.out.about(check.hint)) for check in checks)


def _show(app: App, checks: Sequence[Check], document: Mapping[str, object], *, shown: bool = False) -> None:
    """Show checks, or their document, unless that is `shown` already; and fail if one has."""
    failed = [check for check in checks if check.outcome == "failed"]
    if not shown and not app.out.as_json(document):
        rows = ((check.outcome, check.name, check.detail) for check in checks)
        app.out.show(render.table(("RESULT", "CHECK", "DETAIL"), rows))
        hints = [check for check in checks if check.hint and check.outcome in ("failed", "warning")]
        if hints:
            app.out.line()
        for check in hints:
            app.out.sentence(f"{check.name}: {check.hint}")
    if failed:
        names = ", ".join(check.name for check in failed)
        what = f"{len(failed)} of {len(checks)} checks failed: {names}"
        app.fail(CheckError(what, "the hints above say what to do"))


@click.command(cls=DashCommand, options_metavar="[OPTIONS] [-- PYTEST ARGUMENTS...]")
@click.option("--lint", is_flag=True, help="Only ruff and mypy, and the parts that are named.")
@click.option("--unit", is_flag=True, help="The unit tests.")
@click.option("--contract", is_flag=True, help="The contract that every runtime keeps.")
@click.option("--e2e", is_flag=True, help="The real thing, with processes.")
@click.option(
    "-k", "expression", type=values.Text(), metavar="EXPRESSION",
    help="Only tests whose names match, as for pytest.",
)  # fmt: skip
@click.option("--all", "all_", is_flag=True, help="Every test, not only one for each promise of the README.")
@click.option("--no-skips", is_flag=True, help="A skipped test counts as failed.")
@click.option(
    "--in-turn",
    is_flag=True,
    help="One after the other, with the terminal: for a debugger, or a busy machine.",
)
@pass_app
def test(
    app: App, /, expression: str | None, all_: bool, no_skips: bool, in_turn: bool, **parts: bool
) -> None:
    """Run labctl's own tests: all of them, or the parts named.

    Unit tests, labs of processes, and the contract with labs of containers run beside each other.
    """
    if environment.packaged():
        raise UnsupportedError(
            "an installed labctl has no tests", "run them in a checkout: python3 labctl.py test"
        )
    from tests.lanes import Terminal
    from tests.run import Selection, run_tests

    selection = Selection.of(
        [part for part, given in parts.items() if given],
        os.environ.get("CI", ""),
        expression=expression or "",
        long=all_,
        no_skips=no_skips,
        in_turn=in_turn,
        arguments=click.get_current_context().meta.get(AFTER_DASHES, ()),
    )
    say = app.out.note if app.out.json_wanted else app.out.line
    stream = sys.stderr if app.out.json_wanted else sys.stdout
    terminal = Terminal(to_stderr=app.out.json_wanted, colored=coloured(stream))
    code = run_tests(selection, terminal=terminal, say=say)
    if app.out.json_wanted:
        app.out.document({"passed": code == 0, "exit_code": code})
    if code:
        raise click.exceptions.Exit(code)


COMMANDS = (doctor, test)
