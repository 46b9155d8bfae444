"""doctor, test, completion: this machine and labctl itself."""

from __future__ import annotations

import click

from lab.cli import documents, render
from lab.cli.context import App, LabCommand, pass_app
from lab.errors import CheckError
from lab.topology import check_lab_name

SHELLS = ("bash", "zsh", "fish")

ALIASES = ("labctl.py", "./labctl.py")
"""Other names under which labctl is typed, from its checkout."""


@click.command(cls=LabCommand)
@pass_app
def doctor(app: App) -> None:
    """Check this machine, and the lab when it is up. Exits with 15 when a check fails."""
    check_lab_name(app.settings.name)
    checks = app.core.checks(app.settings.name, app.settings.runtime)
    failed = [check for check in checks if check.outcome == "failed"]
    if app.out.json_wanted:
        app.out.document({"ok": not failed, "checks": [documents.check(check) for check in checks]})
    else:
        rows = ((check.outcome, check.name, check.detail) for check in checks)
        app.out.show(render.table(("RESULT", "CHECK", "DETAIL"), rows))
        hints = [check for check in checks if check.hint and check.outcome in ("failed", "warning")]
        if hints:
            app.out.line()
        for check in hints:
            app.out.line(f"{check.name}: {check.hint}")
    if failed:
        names = ", ".join(check.name for check in failed)
        error = CheckError(
            f"{len(failed)} of {len(checks)} checks failed: {names}", "the hints above say what to do"
        )
        app.out.complain(error, document=False)
        raise click.exceptions.Exit(error.exit_code)


@click.command(cls=LabCommand, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS...]", help="Passed on.")
@pass_app
def test(app: App, arguments: tuple[str, ...]) -> None:
    """Run labctl's own tests."""
    code = app.core.test(arguments)
    if code:
        raise click.exceptions.Exit(code)


@click.command(cls=LabCommand)
@click.argument("shell", type=click.Choice(SHELLS), help="The shell that reads the script.")
@pass_app
def completion(app: App, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  labctl completion bash > ~/.labctl.bash; echo '. ~/.labctl.bash' >> ~/.bashrc
    zsh:   labctl completion zsh > ~/.labctl.zsh; echo '. ~/.labctl.zsh' >> ~/.zshrc
    fish:  labctl completion fish > ~/.config/fish/completions/labctl.fish

    Then open a new shell.
    """
    script = completion_script(shell)
    if app.out.json_wanted:
        app.out.document({"shell": shell, "script": script})
    else:
        app.out.line(script)


def completion_script(shell: str) -> str:
    """What the shell has to read to complete labctl."""
    from click.shell_completion import get_completion_class

    from lab.cli.main import COMPLETE_VARIABLE, PROGRAM, cli

    kind = get_completion_class(shell)
    assert kind is not None
    values = kind(cli, {}, PROGRAM, COMPLETE_VARIABLE).source_vars()
    script = kind.source_template % values
    if shell == "bash":
        script += "".join(f"complete -o nosort -F {values['complete_func']} {name}\n" for name in ALIASES)
    return script.strip() + "\n"


COMMANDS = (doctor, test, completion)
