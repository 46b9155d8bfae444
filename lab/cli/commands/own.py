"""self: what labctl has written on this machine, and its removal."""

from __future__ import annotations

import click

from lab.cli import format, render
from lab.cli.context import App, LabGroup, pass_app
from lab.host import environment

UNINSTALL = "uv tool uninstall, pipx uninstall or pip uninstall raylab-labctl"


@click.group("self", cls=LabGroup)
def self_() -> None:
    """Say what labctl wrote on this machine, or remove it."""


@self_.command()
@pass_app
def check(app: App) -> None:
    """List everything that labctl has written, with sizes. Changes nothing."""
    from lab.flows.traces import NOT_LISTED, Places, traces

    listed = traces(Places())
    document = [{"what": t.what, "place": t.place, "size": t.size, "yours": t.yours} for t in listed]
    if app.out.as_json({"traces": document}):
        return
    rows = (
        (format.size(t.size) if t.size else "", t.place, t.what, "yours" if t.yours else "") for t in listed
    )
    app.out.show(render.table(("SIZE", "PLACE", "WHAT IT IS", ""), rows))
    app.out.line()
    app.out.line(f"Not listed: {NOT_LISTED}.")
    app.out.line("`labctl self remove` removes all but what is yours; with --data, that too.")


@self_.command()
@click.option("--data", is_flag=True, help="Remove what is yours too: stored objects, data sets, notebooks.")
@click.option("--yes", is_flag=True, help="Do not ask before removing.")
@pass_app
def remove(app: App, data: bool, yes: bool) -> None:
    """Remove what labctl has written. No lab may be up; what is yours stays, unless --data is given."""
    from lab.flows.traces import Places, remove_traces, traces

    places = Places()
    listed = traces(places)
    going = [trace for trace in listed if data or not trace.yours]
    if going and not yes:
        names = "".join(f"\n  {t.place} ({t.what}{', yours' if t.yours else ''})" for t in going)
        app.confirm(f"this removes, for good:{names}", "remove")
    gone = remove_traces(listed, places, yours=data, say=app.out.note)
    stays = [trace.place for trace in listed if trace not in gone]
    if app.out.as_json({"removed": [trace.place for trace in gone], "kept": stays}):
        return
    app.out.line(f"removed {format.size(sum(trace.size for trace in gone))} in {len(gone)} places")
    for trace in listed:
        if trace not in gone:
            app.out.line(f"kept, for {'it is yours' if trace.yours else 'a lab uses it'}: {trace.place}")
    itself = UNINSTALL if environment.packaged() else f"rm -r {environment.ROOT}"
    app.out.line(f"labctl itself is left: {itself}")


COMMANDS = (self_,)
