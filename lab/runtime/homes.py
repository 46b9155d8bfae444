"""Homes of a class's people in JupyterHub: folders of this machine."""

from __future__ import annotations

import time
from pathlib import Path

from lab.errors import StateError
from lab.host.files import delete_tree


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
        """Delete what is hers, if there is anything; her server may still run.

        What an earlier call has left is deleted, too. Raises StateError where something is left.
        """
        place = self._folder / person
        try:
            if place.exists():
                place.rename(place.with_name(f".{person}.removed-{time.time_ns()}"))
            for left in self._folder.glob(f".{person}.removed*"):
                place = left
                delete_tree(place)
        except OSError as error:
            message = f"cannot delete {place}: {error.strerror or error}"
            raise StateError(message, "check the owner of all in it; then try again") from error
