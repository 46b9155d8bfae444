"""self: labctl on this machine: what it has written, its removal, its completion."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import click

from lab.cli import format, render
from lab.cli.complete import COMPLETE_VARIABLE, PROGRAM
from lab.cli.context import App, LabGroup, pass_app
from lab.host import environment
from lab.host.files import ROOT
from lab.host.quantities import plural

UNINSTALL = "uv tool uninstall, pipx uninstall or pip uninstall raylab-labctl"


SHELLS = ("bash", "zsh", "fish")

ALIASES = ("labctl.py", "./labctl.py")
"""Other names under which labctl is typed, from its checkout."""

CALLS: Mapping[str, Mapping[str, str]] = {
    "bash": {"bash_complete $1": "bash_complete {program}"},
    "zsh": {
        f"    (( ! $+commands[{PROGRAM}] )) && return 1\n": "",
        f"zsh_complete {PROGRAM})": "zsh_complete {program})",
        f"_completion {PROGRAM}\n": f"_completion {PROGRAM} {ALIASES[0]}\n",
        f"#compdef {PROGRAM}\n": f"#compdef {PROGRAM} {ALIASES[0]}\n",
    },
    "fish": {f"(commandline -t) {PROGRAM})": "(commandline -t) {program})"},
}
"""What click's scripts call, and under which names -> what they have to."""


@click.group("self", cls=LabGroup)
def self_() -> None:
    """List or remove what labctl wrote here; completion."""


@self_.command()
@pass_app
def check(app: App) -> None:
    """List everything that labctl has written, with sizes. Changes nothing."""
    from lab.flows.traces import NOT_LISTED, Places, traces

    listed = traces(Places())
    document = [{"what": t.what, "place": t.place, "size": t.size, "yours": t.yours} for t in listed]
    if app.out.as_json({"traces": document}):
        return
    if listed:
        rows = ((format.size(t.size), t.place, t.what, "yours" if t.yours else "") for t in listed)
        app.out.show(render.table(("SIZE", "PLACE", "WHAT IT IS", ""), rows))
    else:
        app.out.line("labctl has written nothing here")
    app.out.line()
    app.out.sentence(f"Not listed: {NOT_LISTED}.")
    if any(trace.image for trace in listed):
        app.out.sentence("Images have layers in common: together they take less than the sum of their sizes.")
    if listed:
        app.out.sentence("`labctl self remove` removes all but what is yours; with --data, that too.")


@self_.command()
@click.option("--data", is_flag=True, help="Remove what is yours too: stored objects, data sets, notebooks.")
@click.option("--yes", is_flag=True, help="Do not ask before removing.")
@pass_app
def remove(app: App, data: bool, yes: bool) -> None:
    """Remove what labctl has written. No lab may be up; what is yours stays, unless --data is given."""
    from lab.flows.traces import Places, remove_traces, traces

    places = Places()
    listed = traces(places)
    going = [trace for trace in listed if (data or not trace.yours) and not trace.shared]
    if going and not yes:
        names = "".join(f"\n  {t.place} ({t.what}{', yours' if t.yours else ''})" for t in going)
        app.confirm(f"this removes, for good:{names}", "remove")
    gone = remove_traces(listed, places, yours=data, say=app.out.note)
    stays = [trace.place for trace in listed if trace not in gone]
    if app.out.as_json({"removed": [trace.place for trace in gone], "kept": stays}):
        return
    folders = [trace.size for trace in gone if not trace.image]
    images = f", and {plural(len(gone) - len(folders), 'image')}" if len(gone) > len(folders) else ""
    app.out.line(f"removed {format.size(sum(folders))} in {plural(len(folders), 'folder')}{images}")
    for trace in listed:
        if trace not in gone:
            app.out.line(f"kept, because {'it is yours' if trace.yours else 'a lab uses it'}: {trace.place}")
    itself = UNINSTALL if environment.packaged() else f"rm -r {environment.ROOT}"
    app.out.sentence(f"labctl itself remains; to remove it: {itself}")


@self_.command()
@click.argument("shell", type=click.Choice(SHELLS), help="The shell that reads the script.")
@pass_app
def completion(app: App, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  labctl self completion bash > ~/.labctl.bash; echo '. ~/.labctl.bash' >> ~/.bashrc
    zsh:   labctl self completion zsh > ~/.labctl.zsh; echo '. ~/.labctl.zsh' >> ~/.zshrc
    fish:  labctl self completion fish > ~/.config/fish/completions/labctl.fish

    Then open a new shell.
    """
    script = completion_script(shell, click.get_current_context().find_root().command)
    if not app.out.as_json({"shell": shell, "script": script}):
        app.out.line(script)


def completion_script(shell: str, cli: click.Command) -> str:
    """Build what the shell has to read to complete labctl.

    It asks this checkout's labctl.py: an alias is no command that a script can call.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    values = kind(cli, {}, PROGRAM, COMPLETE_VARIABLE).source_vars()
    script = kind.source_template % values
    program = shlex.quote(str(ROOT / ALIASES[0]))
    for said, meant in CALLS[shell].items():
        script = script.replace(said, meant.format(program=program))
    if shell == "bash":
        script += "".join(f"complete -o nosort -F {values['complete_func']} {name}\n" for name in ALIASES)
    return script.strip() + "\n"


COMMANDS = (self_,)
