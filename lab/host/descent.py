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


def descendants(pid: int) -> list[int]:
    """The ids of this process and of all its living descendants."""
    table = {
        process.pid: (process.info["ppid"], str(process.info["name"] or ""))
        for process in psutil.process_iter(["ppid", "name"])
    }
    return sorted(of_table(pid, table))


def of_table(pid: int, table: Mapping[int, tuple[int, str]]) -> set[int]:
    """The same in a table of process id -> (id of its parent, name)."""
    children: dict[int, list[int]] = {}
    for each, (parent, name) in table.items():
        children.setdefault(parent, []).append(each)
        if fork_of(name):
            children.setdefault(each, []).append(fork_of(name))
    found, todo = {pid}, [pid]
    for each in todo:
        new = [child for child in children.get(each, ()) if child in table and child not in found]
        found.update(new)
        todo += new
    return found
