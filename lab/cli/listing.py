"""The list of labctl's commands: a command's module is imported once that command is asked for.

The help needs none of them: to import them all takes longer than everything else that `labctl --help` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib import import_module

import click

from lab.cli.context import shared_options


@dataclass(frozen=True)
class Listed:
    """A command as the help lists it."""

    name: str
    module: str
    """Module of `lab.cli.commands` that has it among its COMMANDS."""
    help: str


SECTIONS: Mapping[str, tuple[Listed, ...]] = {
    "Run": (
        Listed("demo", "demo", "Start the lab, train, lose a node, and prove the recovery."),
        Listed("up", "lab", "Start the lab and wait until every service is healthy."),
        Listed("down", "lab", "Stop the lab, even one that is only half up."),
        Listed("restart", "lab", "Stop a service and start it again."),
        Listed("submit", "submit", "Submit a recipe or a command, and follow its log."),
        Listed("jobs", "jobs", "List the jobs and checkpoints; show, follow or stop a job."),
    ),
    "Break, and prove recovery": (
        Listed("fault-inject", "faults", "Break something and follow the recovery to its receipt."),
        Listed("chaos", "chaos", "Break one thing after another, and judge each recovery."),
        Listed("ladder", "ladder", "Lose the same rank under six ways of recovery, side by side."),
        Listed("heal", "faults", "Revert faults left by a crashed labctl."),
        Listed("receipt", "receipt", "Judge a job of any cluster from its ledger alone."),
        Listed("report", "report", "Write what became of a fault or a job: a page with pictures."),
    ),
    "Look": (
        Listed("status", "lab", "Show services, their addresses, nodes and running jobs."),
        Listed("top", "top", "Show what runs on each node, how busy it is, and who waits."),
        Listed("logs", "lab", "Print what a service wrote."),
        Listed("gpus", "gpus", "Show the GPUs, and which one each worker gets."),
        Listed("health", "health", "Show the health of GPUs and nodes, or the alerts that fire."),
    ),
    "Share": (
        Listed("queue", "queue", "Show the queues of a lab, and the jobs in them."),
        Listed("class", "classroom", "Add, list and remove the people of a class."),
        Listed("lesson", "lessons", "Do the exercises of the course, and get their data sets."),
    ),
    "Grow beyond this machine": (
        Listed("export", "export", "Write the lab for Kubernetes or Compose; check manifests."),
    ),
    "labctl and this machine": (
        Listed("doctor", "machine", "Check this machine, and the lab when it is up."),
        Listed("images", "images", "List, get, save and load the images of containers."),
        Listed("test", "machine", "Run labctl's own tests: all of them, or the parts named."),
        Listed("self", "own", "List or remove what labctl wrote here; completion."),
    ),
}
"""Commands in the help, by what a reader wants."""


def walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """The command and all below it, with their full names."""
    yield name, command
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        yield from walk(f"{name} {below.name}", below)


class Commands(MutableMapping[str, click.Command]):
    """All of labctl's commands by name, each imported when it is asked for."""

    def __init__(self) -> None:
        self._modules = {listed.name: listed.module for section in SECTIONS.values() for listed in section}
        self._imported: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        """The command. Raises KeyError for an unknown one."""
        if name not in self._imported:
            self._import(self._modules[name])
        return self._imported[name]

    def _import(self, name: str) -> None:
        module = import_module(f"lab.cli.commands.{name}")
        clusters = getattr(module, "CLUSTERS", ())
        for outer in module.COMMANDS:
            self._imported[outer.name] = outer
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
