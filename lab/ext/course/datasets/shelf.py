"""The folder of data sets: nothing in it is ever half there, whenever labctl ends."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, NotFoundError, RefusedError, SetupError
from lab.ext.course.datasets import food11, model
from lab.ext.course.datasets.model import Dataset
from lab.host.files import HOME_VARIABLE, data_folder, lock, lock_of, make_public
from lab.host.interrupts import held_back

NAMES = {"food11": food11.NAME}
"""Name that is typed -> folder."""

PART = re.compile(r"(.+)-[0-9a-f]{8}\.zip\.part")
"""The name of a download: the data set's folder, and the beginning of its address's fingerprint."""


Fill = Callable[[Path], None]
"""Puts the pictures and their manifest into an empty folder."""


@dataclass(frozen=True)
class Partial:
    """A download that is not a data set yet."""

    name: str
    bytes: int


class Shelf:
    """The data sets of one folder, by default that of `home()`, which all labs share."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or data_folder()

    @property
    def downloads(self) -> Path:
        """The folder of downloads until they are unpacked, also of those that were interrupted."""
        return self.folder / ".downloads"

    def partial(self) -> tuple[Partial, ...]:
        """Downloads that did not come to their end, one for each data set, by name."""
        sizes: dict[str, int] = {}
        for path in sorted(self.downloads.glob("*.zip.part")):
            match = PART.fullmatch(path.name)
            with contextlib.suppress(OSError):
                if match:
                    sizes[match[1]] = sizes.get(match[1], 0) + path.stat().st_size
        return tuple(Partial(name, size) for name, size in sizes.items())

    def forget(self, name: str) -> None:
        """Delete what has arrived of the data set in the folder `name`, from whichever address."""
        for path in self.downloads.glob(f"{glob.escape(name)}-{'[0-9a-f]' * 8}.zip.part*"):
            path.unlink(missing_ok=True)

    def all(self) -> tuple[Dataset, ...]:
        """Every data set that is here, by name."""
        folders = sorted(self.folder.glob("[!.]*/")) if self.folder.is_dir() else []
        return tuple(dataset for folder in folders if (dataset := model.read(folder)) is not None)

    def find(self, name: str) -> Dataset | None:
        """The data set of that name (`food11` or `Food-11`), or None when it is not here."""
        return next((dataset for dataset in self.all() if _same(dataset.name, name)), None)

    def arrived(self, name: str) -> Partial | None:
        """The download of the data set of that name, or None."""
        return next((partial for partial in self.partial() if _same(partial.name, name)), None)

    def get(self, name: str) -> Dataset:
        """The data set of that name. Raises NotFoundError when it is not here."""
        dataset = self.find(name)
        if dataset is None:
            here = ", ".join(dataset.name for dataset in self.all())
            hint = f"there are: {here}" if here else "`labctl lesson data food11` gets one"
            raise NotFoundError(f"there is no data set {name!r} in {self.folder}", hint)
        return dataset

    @property
    def lock(self) -> Path:
        """The file that holds it."""
        return lock_of(self.folder)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Hold the folder, make it if missing, and clear away what a labctl that was killed left.

        Raises SetupError when the folder cannot be written to or another labctl is at work in it.
        """
        make_public(self.folder)
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise SetupError(
                f"cannot write to {self.folder}", f"check its owner, or: export {HOME_VARIABLE}=/some/where"
            )
        with lock(self.lock, "the data sets"), disk(self.folder):
            for name in NAMES.values():
                if self._old(name).exists() and not (self.folder / name).exists():
                    self._old(name).rename(self.folder / name)
                for left in (self._old(name), self._new(name)):
                    _remove(left)
            yield

    def put(self, name: str, fill: Fill) -> Dataset:
        """Fill a new folder, and give it the name when it is whole; what had the name before goes then.

        Needs `busy`. Whatever `fill` raises, the data set of that name stays as it was.
        """
        new, there = self._new(name), self.folder / name
        try:
            fill(model.make_folder(new))
            with held_back():
                if there.exists():
                    there.rename(self._old(name))
                new.rename(there)
        except BaseException:
            with held_back(), contextlib.suppress(OSError):
                _remove(new)
            raise
        _remove(self._old(name))
        dataset = model.read(there)
        assert dataset is not None
        return dataset

    def remove(self, name: str) -> Dataset | None:
        """Delete a data set, and what was downloaded of it; returns what it was, None for a download alone.

        Raises NotFoundError, SetupError.
        """
        arrived = self.arrived(name)
        dataset = self.find(name) if arrived else self.get(name)
        with self.busy():
            if dataset is not None:
                _remove(dataset.folder)
            self.forget(dataset.name if dataset else arrived.name if arrived else name)
        return dataset

    def _new(self, name: str) -> Path:
        return self.folder / f".new-{name}"

    def _old(self, name: str) -> Path:
        return self.folder / f".old-{name}"


def allow(there: Dataset | None, *, synthetic: bool, force: bool) -> bool:
    """True when the data set has to be made, False when it is there.

    Raises RefusedError when something else is there and `force` does not allow to replace it.
    """
    if there is None or force:
        return True
    if there.missing or not there.pictures:
        lacks = f"lacks {there.missing} of its pictures" if there.missing else "holds no pictures"
        raise RefusedError(f"{there.folder} {lacks}", "--force replaces it")
    if there.synthetic is synthetic:
        return False
    here, asked = ("drawn pictures", "photographs") if there.synthetic else ("photographs", "drawn pictures")
    raise RefusedError(
        f"{there.folder} holds {here}, not {asked}",
        "--force replaces them; `labctl lesson data rm food11` deletes them",
    )


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[None]:
    """Turn what the disk refuses into a SetupError."""
    try:
        yield
    except LabError:
        raise
    except OSError as error:
        where = error.filename or folder
        hint = "free some space" if error.errno == errno.ENOSPC else "check its owner and the disk"
        raise SetupError(f"cannot write {where}: {error.strerror or error}", hint) from error


def _same(folder: str, name: str) -> bool:
    """True when a name (`food11` or `Food-11`) means this folder."""
    return folder.lower() == NAMES.get(name.lower(), name).lower()


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
