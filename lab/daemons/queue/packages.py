"""Working folders of jobs as they were when they were submitted: zip files, named by their SHA-256."""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
from collections.abc import Collection
from pathlib import Path

from lab.cluster.packing import MAX_PACKAGE_BYTES, MAX_UNPACKED_BYTES
from lab.errors import NotFoundError, RefusedError, StateError, UsageError
from lab.host.archives import ZIP_ERRORS
from lab.host.clock import WALL, Clock
from lab.host.files import make_private, replace_file
from lab.host.reading import read_bytes

FOLDER = "packages"
KEPT_SECONDS = 600.0
"""Time for which a package that no job needs is kept: its job may just be on its way."""


class Packages:
    """The files. Raises StateError for what the disk does not let be done."""

    def __init__(self, folder: Path, clock: Clock = WALL) -> None:
        self.folder, self._clock = make_private(folder / FOLDER), clock

    def has(self, sha256: str) -> bool:
        """Tell if there is one, which is then kept for a while. Raises UsageError for a malformed hash."""
        try:
            os.utime(self._path(sha256), (self._clock(), self._clock()))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._trouble(error) from error
        return True

    def put(self, sha256: str, data: bytes) -> None:
        """Keep a package: all of it or nothing. Raises UsageError for no zip, RefusedError for another."""
        path = self._path(sha256)
        digest = hashlib.sha256(data).hexdigest()
        if digest != sha256:
            raise RefusedError(f"the package has SHA-256 {digest}, not {sha256}", "send it once more")
        _check_zip(data)
        try:
            replace_file(path, data, flush=True)
            os.utime(path, (self._clock(), self._clock()))
        except OSError as error:
            raise self._trouble(error) from error

    def get(self, sha256: str) -> bytes:
        """The package. Raises NotFoundError."""
        try:
            return read_bytes(self._path(sha256), MAX_PACKAGE_BYTES)
        except FileNotFoundError as error:
            raise NotFoundError(f"there is no package {sha256}", "send it before its job") from error
        except OSError as error:
            raise self._trouble(error) from error

    def sweep(self, needed: Collection[str]) -> None:
        """Delete what no job needs, unless it came, or was asked for, a short time ago."""
        try:
            for path in self.folder.iterdir():
                old = self._clock() - path.stat().st_mtime > KEPT_SECONDS
                if old and path.name.removesuffix(".zip") not in needed:
                    path.unlink(missing_ok=True)
        except OSError as error:
            raise self._trouble(error) from error

    def _path(self, sha256: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise UsageError(f"{sha256[:80]!r} is not a SHA-256", "64 hexadecimal digits in lower case")
        return self.folder / f"{sha256}.zip"

    def _trouble(self, error: OSError) -> StateError:
        return StateError(f"cannot keep packages in {self.folder}: {error.strerror}", "free some space")


def _check_zip(data: bytes) -> None:
    """Refuse what is no zip, or would be too much of one. Raises UsageError."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as opened:
            size = sum(entry.file_size for entry in opened.infolist())
    except ZIP_ERRORS as error:
        raise UsageError(f"the package is not a zip file, or a damaged one: {error}") from error
    if size > MAX_UNPACKED_BYTES:
        raise UsageError(f"the package has more than {MAX_UNPACKED_BYTES >> 20} MiB of files")
