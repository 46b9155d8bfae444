"""health: state of every GPU and node, and the alerts that fire."""

from __future__ import annotations

import click

from lab.api.health import DeviceView, HealthView, Result
from lab.cli import format, health_words, render, values
from lab.cli.context import App, LabGroup, pass_app
from lab.cluster.alerts import Alerts, where
from lab.host.clock import WALL

LONGEST_SILENCE = 7 * 86_400.0
"""Seconds."""


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
        _show(app, app.open().health.view(), every=every)


def _show(app: App, results: HealthView, *, every: bool) -> None:
    if app.out.as_json(results):
        return
    devices = results.devices
    if not devices:
        app.out.line("no health agent has reported yet")
        return
    app.out.show(
        render.table(COLUMNS, (_device(device, results.now) for device in devices)), width=render.SENTENCES
    )
    rows = [
        _check(device, check, results.now)
        for device in devices
        for check in device.checks
        if every or check.state != "PASS"
    ]
    if rows:
        app.out.line()
        app.out.show(render.table(CHECK_COLUMNS, rows), width=render.SENTENCES)
    if every:
        for node, skipped in results.skipped.items():
            for name, why in skipped.items():
                app.out.sentence(f"{node}: {name} is not checked: {why}")
    for symptom in results.symptoms:
        place = f"{symptom.check} of {symptom.node} {health_words.device(symptom.device)}"
        app.out.note(f"a fault lets {place} say {symptom.state}")


COLUMNS = ("NODE", "DEVICE", "MODEL", "STATE", "SINCE", "REASON", "MESSAGE")
CHECK_COLUMNS = ("NODE", "DEVICE", "CHECK", "STATE", "VALUE", "AGE", "MESSAGE")


def _device(device: DeviceView, now: float) -> tuple[str, ...]:
    return (
        device.node,
        health_words.device(device.device),
        device.model,
        device.state,
        health_words.since(device.since, now),
        device.reason,
        device.message,
    )


def _check(device: DeviceView, check: Result, now: float) -> tuple[str, ...]:
    return (
        device.node,
        health_words.device(device.device),
        check.name,
        check.state,
        health_words.value(check),
        health_words.since(check.at, now),
        check.message,
    )


@health.command()
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
    app.out.show(
        render.table(("ALERT", "SEVERITY", "SINCE", "WHERE", "SUMMARY"), rows), width=render.SENTENCES
    )


@health.command()
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


COMMANDS = (health,)
