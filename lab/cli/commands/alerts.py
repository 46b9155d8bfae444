"""health alerts, health silence: the alerts that fire, as Alertmanager has them."""

from __future__ import annotations

import click

from lab.cli import format, render, values
from lab.cli.context import App, LabCommand, pass_app
from lab.cluster.alerts import Alerts, where
from lab.host.clock import WALL

LONGEST_SILENCE = 7 * 86_400.0
"""Seconds."""


@click.command(cls=LabCommand)
@pass_app
def alerts(app: App) -> None:
    """Show the alerts that fire.

    Prometheus decides them, Alertmanager groups and silences them. docs/metrics.md lists them all.
    """
    firing = _open(app).firing()
    if app.out.as_json({"alerts": firing}):
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
            where(alert),
            alert.summary,
        )
        for alert in firing
    )
    titles = ("ALERT", "SEVERITY", "SINCE", "WHERE", "SUMMARY")
    app.out.show(render.table(titles, rows), width=render.SENTENCES)


@click.command(cls=LabCommand)
@click.argument("name", type=values.Text(), metavar="NAME", help="An alert; see `labctl health alerts`.")
@click.option(
    "--for", "seconds", type=values.Duration(most=LONGEST_SILENCE), metavar="TIME", default=3600.0,
    help="How long. [default: 1h]",
)  # fmt: skip
@pass_app
def silence(app: App, name: str, seconds: float) -> None:
    """Silence an alert for a while: it is sent to nobody.

    It is still shown. Alertmanager's page ends a silence before its time.
    """
    made = _open(app).silence(name, seconds)
    if not app.out.as_json({"silence": made}):
        app.out.line(f"{made.alert}: silenced until {format.clock(made.until)}")


def _open(app: App) -> Alerts:
    endpoints = app.open().endpoints()
    return Alerts(endpoints.alertmanager, endpoints.prometheus)


COMMANDS = (alerts, silence)
