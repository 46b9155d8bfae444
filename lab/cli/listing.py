"""The list of labctl's commands: a command's module is imported once that command is asked for.

The help needs none of them: to import them all takes longer than everything else that `labctl --help` does.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from types import ModuleType

import click

from lab.cli.context import shared_options
from lab.errors import SetupError
from lab.extension import Command, extensions, load


def listed() -> tuple[Command, ...]:
    """The commands of the first level."""
    return tuple(command for command in all_commands() if " " not in command.name)


def all_commands() -> tuple[Command, ...]:
    """The commands of all extensions; of two with one name the first, which is the core's or ours."""
    commands: dict[str, Command] = {}
    for extension in extensions():
        for command in extension.commands:
            commands.setdefault(command.name, command)
    return tuple(commands.values())


def walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """The command and all below it, with their full names."""
    yield name, command
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        yield from walk(f"{name} {below.name}", below)


def _module(name: str) -> ModuleType:
    try:
        return load(name)
    except (Exception, SystemExit) as error:
        if name.startswith("lab."):
            raise
        what = f"the module {name} of an extension does not load: {error!r}"
        raise SetupError(what, "mend or uninstall the package that brings it") from error


def _add(group: click.Group, row: Command) -> None:
    """Add a command below a group, unless the group has one of that name, or it cannot be had."""
    below = row.name.rpartition(" ")[2]
    try:
        commands = {command.name: command for command in _module(row.module).COMMANDS}
    except SetupError:  # the rest of the group works all the same
        return
    if below in commands and below not in group.commands:
        group.add_command(commands[below])


class Commands(MutableMapping[str, click.Command]):
    """All of labctl's commands by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self._modules = {command.name: command.module for command in listed()}
        self._imported: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        """The command. Raises KeyError for an unknown one."""
        if name not in self._imported:
            self._import(self._modules[name])
        return self._imported[name]

    def _import(self, name: str) -> None:
        module = _module(name)
        clusters = getattr(module, "CLUSTERS", ())
        for outer in module.COMMANDS:
            if self._modules.get(outer.name) != name:  # it belongs below a group, or nobody registered it
                continue
            self._imported[outer.name] = outer
            for row in all_commands():
                if row.name.startswith(f"{outer.name} ") and isinstance(outer, click.Group):
                    _add(outer, row)
            for _, command in walk(outer.name, outer):
                shared_options(command, clusters=command in clusters)

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._imported[name] = command
        self._modules.setdefault(name, "")

    def __delitem__(self, name: str) -> None:
        self._imported.pop(name, None)
        del self._modules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)
