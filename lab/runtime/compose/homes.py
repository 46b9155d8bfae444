"""Homes of a class's people in the container of its JupyterHub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lab.api.hub import HOMES_INSIDE
from lab.errors import StateError
from lab.runtime.base import Execution
from lab.runtime.homes import Homes


class HomesInside(Homes):
    """Homes there: the hub's container has to run, or each method raises LabDownError, too."""

    def __init__(self, execute: Callable[[Sequence[str]], Execution]) -> None:
        """`execute` runs a command in that container."""
        super().__init__(Path(HOMES_INSIDE))
        self._execute = execute

    def has(self, person: str) -> bool:
        return self._execute(("test", "-e", str(self._folder / person / "work"))).exit_code == 0

    def count(self) -> int:
        return len(self._execute(("ls", str(self._folder))).output.split())

    def delete(self, person: str) -> None:
        home = str(self._folder / person)
        if self._execute(("test", "-d", home)).exit_code:
            return
        done = self._execute(("python", "-m", "lab.daemons.hub.accounts", home))
        if done.exit_code:
            why = done.output.strip().rpartition("\n")[2]
            raise StateError(f"cannot delete the home of {person}: {why}", "labctl logs hub")
