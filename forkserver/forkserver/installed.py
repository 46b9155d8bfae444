"""The packages that are installed, and whether they are still those that a server has seen as it started."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDS = (".dist-info", ".egg-info", ".egg-link", ".pth")
"""Endings of what an installer leaves beside a package, under the package's name and version."""


class Installed:
    """The packages in some folders at first, to be compared with what is there now."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._folders = [folder for folder in folders if os.path.isdir(folder)]
        self._times, self._first = self._look_at_folders(), self._look()

    def changed(self) -> bool:
        """Tell whether packages were added, removed or replaced: cheap as long as no folder was changed."""
        times = self._look_at_folders()
        if times == self._times:
            return False
        if self._look() != self._first:
            return True
        self._times = times  # something else was made there, such as a folder of compiled modules
        return False

    def _look_at_folders(self) -> list[int]:
        return [_changed_at(folder) for folder in self._folders]

    def _look(self) -> set[tuple[str, int]]:
        seen = set()
        for folder in self._folders:
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            paths = [os.path.join(folder, name) for name in names if name.endswith(RECORDS)]
            seen |= {(path, _changed_at(path)) for path in paths}
        return seen


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
