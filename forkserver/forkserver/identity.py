"""Ids that Ray makes up: each fork must make up its own.

Ray's C++ library (2.60) draws the ids of tasks, actors and placement groups from a generator that takes its
seed from the system when it is first used, and never again. Used in a server, it would give every fork the
same ids: the placement groups of two runs would be one. So nothing may draw from it before a fork. What does,
as modules are imported, is the class of every actor (`@ray.remote`); here those ids come from the system. A
server makes sure of it before it serves: two forks of it that draw an id must not draw the same.
"""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ID_BYTES = 64
"""More than any id of Ray's has."""


@contextlib.contextmanager
def left_alone() -> Iterator[None]:
    """Context in which the ids of actor classes are not drawn from Ray's generator."""
    from ray import actor

    kind: Any = actor.ActorClassID

    class FromTheSystem:
        """Stand-in with what `ray.actor` uses of ActorClassID."""

        @staticmethod
        def from_random() -> Any:
            return kind(os.urandom(kind.size()))

    actor.ActorClassID = FromTheSystem
    try:
        yield
    finally:
        actor.ActorClassID = kind


def shared() -> bool:
    """Tell whether two forks of this process would draw the same id."""
    return "ray._raylet" in sys.modules and _drawn_by_a_fork() == _drawn_by_a_fork()


def _drawn_by_a_fork() -> bytes:
    """An id that a fork of this process draws. Raises OSError."""
    from ray._raylet import UniqueID

    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, UniqueID.from_random().binary())
        finally:
            os._exit(0)
    os.close(write)
    try:
        return os.read(read, ID_BYTES)
    finally:
        os.close(read)
        os.waitpid(pid, 0)
