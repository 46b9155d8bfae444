"""The descendants of a process of a node, forks of the fork server included.

Such a fork is a child of the server. A small process was started in its place, whose name holds the fork's id
(forkserver.launcher): that process leads to the fork and to all that the fork has started.
"""

from __future__ import annotations

from collections.abc import Mapping

import psutil

FORK = "fork:"
"""Name of a process that stands for a fork, before the fork's process id."""


def fork_of(name: str) -> int:
    """The process id of the fork that a process of this name stands for; 0 if it stands for none."""
    number = name[len(FORK) :] if name.startswith(FORK) else ""
    return int(number) if number.isdecimal() else 0


def process_table() -> dict[int, tuple[int, str]]:
    """The id of every process -> the id of its parent, and its name."""
    return {
        process.pid: (process.info["ppid"], str(process.info["name"] or ""))
        for process in psutil.process_iter(["ppid", "name"])
    }


def descendants(pid: int) -> list[int]:
    """The ids of this process and of all its living descendants."""
    return sorted(of_table(pid, process_table()))


def of_table(pid: int, table: Mapping[int, tuple[int, str]]) -> set[int]:
    """The same in a table of processes."""
    children: dict[int, list[int]] = {}
    for child, (parent, name) in table.items():
        children.setdefault(parent, []).append(child)
        if fork_of(name):
            children.setdefault(child, []).append(fork_of(name))
    family, todo = {pid}, [pid]
    for ancestor in todo:
        new = [child for child in children.get(ancestor, ()) if child in table and child not in family]
        family.update(new)
        todo += new
    return family
