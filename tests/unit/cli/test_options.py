"""An option means one thing in all commands, and is written in one way."""

from __future__ import annotations

from collections import defaultdict

import click

from lab.cli.context import SharedOption
from lab.cli.listing import listed, walk
from lab.cli.main import cli

MOST_COMMANDS = 25

VALUES = {
    "--fault": "the ladder has two of them",
    "--gpu": "exports have those that they can hold",
    "--output": "a file or a folder, whichever the command writes",
    "-p": "of a recipe, of a fault, of one of several faults",
}
"""Options whose values differ from command to command, and why."""


def uses() -> dict[str, dict[tuple[str, bool], list[str]]]:
    """Option -> its value's name and whether it is a flag -> commands that have it so."""
    table: dict[str, dict[tuple[str, bool], list[str]]] = defaultdict(lambda: defaultdict(list))
    for outer, group in cli.commands.items():
        for name, command in walk(outer, group):
            for param in command.params:
                if isinstance(param, click.Option) and not isinstance(param, SharedOption):
                    for flag in param.opts:
                        table[flag][param.make_metavar(click.Context(command)), param.is_flag].append(name)
    return table


def test_the_first_level_can_be_read_at_a_glance() -> None:
    assert len(listed()) == len(cli.commands) <= MOST_COMMANDS


def test_an_option_takes_the_same_kind_of_value_wherever_it_stands() -> None:
    differ = {flag: dict(ways) for flag, ways in uses().items() if len(ways) > 1}
    assert set(differ) == set(VALUES), differ


def test_a_time_is_read_by_one_type_and_named_so() -> None:
    odd = [
        (name, param.opts)
        for outer, group in cli.commands.items()
        for name, command in walk(outer, group)
        for param in command.params
        if (param.type.name == "duration") is not (param.metavar == "TIME")
    ]
    assert odd == []
