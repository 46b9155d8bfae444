"""Homes of a class's people in JupyterHub: folders of this machine, or in the container of the hub."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.api.hub import HOMES_INSIDE
from lab.errors import StateError

if TYPE_CHECKING:
    from lab.runtime.base import Execution


class Homes:
    """The homes of a lab of plain processes. A person has none before her server was first started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, person: str) -> bool:
        """True when there is something of hers."""
        return (self._folder / person).exists()

    def count(self) -> int:
        """Number of people with a home."""
        return sum(1 for _ in self._folder.glob("[a-z]*"))

    def delete(self, person: str) -> None:
        """Delete what is hers, if there is anything; her server may still run. Raises StateError."""
        home = self._folder / person
        gone = home.with_name(f".{person}.removed")
        try:
            if home.exists():
                home.rename(gone)
        except OSError as error:
            message = f"cannot delete {home}: {error.strerror}"
            raise StateError(message, "check its owner; then try again") from error
        shutil.rmtree(gone, ignore_errors=True)


class HomesInside(Homes):
    """Those in the container of the hub, which has to run: each method raises LabDownError, too."""

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
