"""The witness on the head's own machine: the kernel, which knows whether a node's raylet may run.

It says so of plain processes. A container's processes, and those of another machine, it does not show: there
this witness has nothing to say, and silence alone counts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence

from raylab_liveness.model import Kind, Node, Sign

NAME = "kernel"

RAYLET, NODE_ID = "raylet", b"--node_id="
"""Name of a raylet's process, and the argument with the hexadecimal id of its node (ray 2.60)."""

KINDS = {"T": Kind.STOPPED, "R": Kind.RUNNING, "S": Kind.RUNNING, "D": Kind.RUNNING}
"""State of a process (proc(5)) -> what it says: T was sent SIGSTOP. One that a debugger holds, or that has
ended and was not waited for, has another."""

FIND_SECONDS, TRIES = 1.0, 10
"""Pause between two searches for the raylets of new nodes, and how often one is searched for."""

Raylet = tuple[int, str]
"""Process id and start time: an id alone names nothing."""


class Kernel:
    """Witness that looks at the states of raylets."""

    name = NAME

    def __init__(self, proc: str = "/proc") -> None:
        """`proc` is where the kernel shows processes, if it does."""
        self._proc = proc
        self._raylets: dict[bytes, Raylet] = {}
        self._tries: dict[bytes, int] = {}
        """Searches for those that were not there yet."""
        self._next = 0.0

    def look(self, nodes: Sequence[Node], now: float) -> Iterable[Sign]:
        wanted = {node.node_id for node in nodes if not node.head}
        self._raylets = {node: raylet for node, raylet in self._raylets.items() if node in wanted}
        self._tries = {node: self._tries.get(node, 0) for node in wanted - self._raylets.keys()}
        if now >= self._next and any(tries < TRIES for tries in self._tries.values()):
            self._next = now + FIND_SECONDS
            self._find()
        return [Sign(NAME, node, self._kind(raylet)) for node, raylet in self._raylets.items()]

    def _find(self) -> None:
        """Look for the raylets of these nodes among all processes."""
        for node in self._tries:
            self._tries[node] += 1
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._proc):
                with contextlib.suppress(OSError, ValueError):
                    if entry.name.isdigit() and self._read(entry.name, "comm").strip() == RAYLET.encode():
                        node = _node_of(self._read(entry.name, "cmdline"))
                        if node in self._tries:
                            self._raylets[node] = (int(entry.name), self._stat(int(entry.name))[1])

    def _kind(self, raylet: Raylet) -> Kind:
        pid, started = raylet
        try:
            state, start = self._stat(pid)
        except (OSError, IndexError):  # it has ended
            return Kind.UNKNOWN
        return KINDS.get(state, Kind.UNKNOWN) if start == started else Kind.UNKNOWN

    def _stat(self, pid: int) -> tuple[str, str]:
        """State and start time of a process. Raises OSError."""
        fields = self._read(str(pid), "stat").rpartition(b")")[2].split()
        return fields[0].decode(), fields[19].decode()

    def _read(self, pid: str, name: str) -> bytes:
        with open(f"{self._proc}/{pid}/{name}", "rb") as file:
            return file.read()


def _node_of(arguments: bytes) -> bytes:
    """The node that a raylet with these arguments serves. Raises ValueError."""
    named = (word.removeprefix(NODE_ID) for word in arguments.split(b"\0") if word.startswith(NODE_ID))
    return bytes.fromhex(next(named, b"").decode())
