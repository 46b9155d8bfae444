"""Homes of a class's people in JupyterHub: folders of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.errors import StateError


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
