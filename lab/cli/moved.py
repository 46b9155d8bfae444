"""Commands and options that have another name now: the old one is refused, with the new one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import click

from lab.cli.complete import PROGRAM
from lab.errors import UsageError

COMMANDS: Mapping[str, str] = {
    "alerts silence": "health silence",
    "alerts": "health alerts",
    "checkpoints": "jobs checkpoints",
    "completion": "self completion",
    "data": "lesson data",
    "faults": "fault-inject --list",
    "job": "jobs",
    "lint": "export check",
    "queue cancel": "jobs stop",
    "queue stop": "queue hold",
    "recipes": "submit --list",
    "services": "status --addresses",
}
"""Old name -> new one; a longer name stands before the beginning of it."""

OPTIONS: Mapping[str, str] = {
    "--for-time": "write --for TIME",
    "--interval": "write --every TIME",
    "--ledger": "write --storage s3://BUCKET[/FOLDER], as for `export kubernetes`",
    "--memory": "write --memory-per-worker SIZE",
    "--name": "--lab names the lab; --job-name of `submit` names the job",
    "--no-wait": "write --detach",
    "--until-done": "leave it out: it is the default now",
    "--wait": "leave it out: it is the default now",
    "-o": "write --yaml",
    "health run --check": "name the check without an option: labctl health run CHECK",
    "queue check --output": "write --yaml",
    "queue get --output": "write --yaml",
}
"""Old option, alone or after the only command that had it -> advice."""


def refuse_command(words: Sequence[str]) -> None:
    """Refuse a command line without `labctl` that begins with an old name. Raises UsageError."""
    for old, new in COMMANDS.items():
        length = len(old.split())
        if list(words[:length]) == old.split():
            rest = shlex.join(words[length:])
            raise UsageError(
                f"`{PROGRAM} {old}` is now `{PROGRAM} {new}`", f"{PROGRAM} {new} {rest}".rstrip()
            )


def old_option(error: click.ClickException) -> UsageError | None:
    """The error to show for an option that has another name now; None for every other error."""
    if not isinstance(error, click.NoSuchOption):
        return None
    name = error.option_name
    command = error.ctx.command_path.removeprefix(f"{PROGRAM} ") if error.ctx else ""
    advice = OPTIONS.get(f"{command} {name}") or OPTIONS.get(name)
    return UsageError(f"{name} is no longer an option", advice) if advice else None
