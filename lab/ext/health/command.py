"""health: state of every GPU and node."""

from __future__ import annotations

import click

from lab.api.health import HealthView, Result
from lab.cli import format, render
from lab.cli.context import App, LabGroup, pass_app
from lab.cluster.health import short


@click.group(cls=LabGroup, invoke_without_command=True)
@click.option("--all", "every", is_flag=True, help="Show every check, including those that pass.")
@click.pass_context
@pass_app
def health(app: App, ctx: click.Context, every: bool) -> None:
    """Show the health of GPUs and nodes, or the alerts that fire.

    Each node has an agent that checks it and its GPUs all the time. Jobs avoid what is in state WARN if they
    can, and EVICT is emptied. docs/health.md has the checks.
    """
    if ctx.invoked_subcommand is None:
        view = app.open().health.view()
        if not app.out.as_json(view):
            _show(app, view, every=every)


def _show(app: App, view: HealthView, *, every: bool) -> None:
    if not view.devices:
        app.out.line("no health agent has reported yet")
        return

    def since(at: float) -> str:
        return format.seconds(max(0.0, view.now - at))

    rows = [
        (d.node, short(d.device), d.model, d.state, since(d.since), d.reason, d.message) for d in view.devices
    ]
    titles = ("NODE", "DEVICE", "MODEL", "STATE", "SINCE", "REASON", "MESSAGE")
    app.out.show(render.table(titles, rows), width=render.SENTENCES)
    rows = [
        (d.node, short(d.device), check.name, check.state, _value(check), since(check.at), check.message)
        for d in view.devices
        for check in d.checks
        if every or check.state in ("WARN", "EVICT")
    ]
    if rows:
        app.out.line()
        titles = ("NODE", "DEVICE", "CHECK", "STATE", "VALUE", "AGE", "MESSAGE")
        app.out.show(render.table(titles, rows), width=render.SENTENCES)
    for symptom in view.symptoms:
        place = f"{symptom.check} of {symptom.node} {short(symptom.device)}"
        app.out.note(f"a fault lets {place} say {symptom.state}")


def _value(check: Result) -> str:
    return "" if check.value is None else f"{check.value:.4g} {check.unit}".strip()


COMMANDS = (health,)
