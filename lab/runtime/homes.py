"""Homes of a class's people in JupyterHub: folders of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from itertools import chain
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
        """Delete what is hers, if there is anything; her server may still run.

        What an earlier call has left is deleted, too. Raises StateError where something is left.
        """
        place = self._folder / person
        try:
            if place.exists():
                place.rename(place.with_name(f".{person}.removed-{time.time_ns()}"))
            for left in self._folder.glob(f".{person}.removed*"):
                place = left
                _delete(place)
        except OSError as error:
            message = f"cannot delete {place}: {error.strerror or error}"
            raise StateError(message, "check the owner of all in it; then try again") from error


def _delete(folder: Path) -> None:
    """Delete a folder, with those in it that are read-only, such as Go's of modules. Raises OSError."""
    for parent, names, _ in chain([(str(folder.parent), [folder.name], [""])], os.walk(folder)):
        for path in (Path(parent, name) for name in names):
            with contextlib.suppress(OSError):  # somebody else's, or gone
                if not path.is_symlink():
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):  # what was written meanwhile, or cannot be deleted
        shutil.rmtree(folder)
