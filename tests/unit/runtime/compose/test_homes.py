from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.api.hub import HOMES_INSIDE
from lab.errors import StateError
from lab.runtime.base import Execution
from lab.runtime.compose.homes import HomesInside

EMPTY = ("python", "-m", "lab.daemons.hub.accounts")


class Container:
    """The container of a hub in which ann has a home with something in it, and zoe one without."""

    def __init__(self) -> None:
        self.emptied: list[str] = []
        self.fails = False

    def __call__(self, argv: Sequence[str]) -> Execution:
        if argv[0] == "test":
            there = (f"{HOMES_INSIDE}/ann", f"{HOMES_INSIDE}/ann/work", f"{HOMES_INSIDE}/zoe")
            return Execution(int(argv[-1] not in there), "")
        if argv[0] == "ls":
            return Execution(0, "ann\nzoe\n")
        assert tuple(argv[:-1]) == EMPTY
        self.emptied.append(argv[-1])
        return Execution(int(self.fails), "Traceback\nOSError: no\n" if self.fails else "")


def test_homes_in_a_container_are_looked_at_and_deleted_there() -> None:
    container = Container()
    homes = HomesInside(container)
    assert [homes.has(name) for name in ("ann", "ben", "zoe")] == [True, False, False]
    assert homes.count() == 2
    for name in ("ann", "ben"):
        homes.delete(name)
    assert container.emptied == [f"{HOMES_INSIDE}/ann"]
    container.fails = True
    with pytest.raises(StateError, match="OSError: no"):
        homes.delete("ann")
