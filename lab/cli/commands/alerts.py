"""alerts: what Prometheus finds wrong with the lab, and silences."""

from __future__ import annotations

import click

from lab.cli import documents, format, render, values
from lab.cli.context import App, LabGroup, pass_app
from lab.cluster.alerts import Alerts
from lab.host.clock import WALL

LONGEST_SILENCE = 7 * 86_400.0
"""Seconds."""


@click.group(cls=LabGroup, invoke_without_command=True)
@click.pass_context
@pass_app
def alerts(app: App, ctx: click.Context) -> None:
    """Show the alerts that fire.

    Prometheus decides them, Alertmanager groups and silences them. docs/metrics.md lists them all.
    """
    if ctx.invoked_subcommand is not None:
        return
    firing = _open(app).firing()
    if app.out.as_json({"alerts": [documents.alert(alert) for alert in firing]}):
        return
    if not firing:
        app.out.line("no alert fires")
        return
    now = WALL()
    rows = (
        (
            alert.name,
            f"{alert.severity}, silenced" if alert.silenced else alert.severity,
            format.seconds(max(0.0, now - alert.since)),
            alert.where,
            alert.summary,
        )
        for alert in firing
    )
    app.out.show(
        render.table(("ALERT", "SEVERITY", "SINCE", "WHERE", "SUMMARY"), rows), width=render.SENTENCES
    )


@alerts.command()
@click.argument("name", type=values.Text(), metavar="NAME", help="An alert; see `labctl alerts`.")
@click.option(
    "--for", "seconds", type=values.Duration(most=LONGEST_SILENCE), metavar="DURATION", default=3600.0,
    help="How long. [default: 1h]",
)  # fmt: skip
@pass_app
def silence(app: App, name: str, seconds: float) -> None:
    """Send an alert to nobody for a while.

    It is still shown. Alertmanager's page ends a silence before its time.
    """
    made = _open(app).silence(name, seconds)
    if not app.out.as_json({"silence": documents.silence(made)}):
        app.out.line(f"{made.alert}: silenced until {format.clock(made.until)}")


def _open(app: App) -> Alerts:
    endpoints = app.open().endpoints()
    return Alerts(endpoints.alertmanager, endpoints.prometheus)


COMMANDS = (alerts,)
