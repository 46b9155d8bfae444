"""The folder of data sets: nothing in it is ever half there, whenever labctl ends."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.errors import LabError, NotFoundError, SetupError
from lab.ext.course.datasets import food11, model
from lab.ext.course.datasets.model import Dataset
from lab.host.files import HOME_VARIABLE, data_folder, lock, lock_of, make_public
from lab.host.interrupts import held_back


class Shelf:
    """The data sets of one folder, by default that of `home()`, which all labs share."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or data_folder()

    @property
    def downloads(self) -> Path:
        """The folder of Food-11's archive until it is unpacked, also of one that did not come whole."""
        return self.folder / ".downloads"

    @property
    def arrived(self) -> int:
        """Bytes that were downloaded and are not a data set yet."""
        return sum(path.stat().st_size for path in self.downloads.glob("*.part"))

    def forget(self) -> None:
        """Delete what has arrived, from whichever address."""
        _remove(self.downloads)

    def all(self) -> tuple[Dataset, ...]:
        """Every data set that is here, by name."""
        folders = sorted(self.folder.glob("[!.]*/")) if self.folder.is_dir() else []
        return tuple(model.read(folder) for folder in folders if folder.is_dir())

    def find(self, name: str) -> Dataset | None:
        """The data set of that name (`food11` or `Food-11`), or None when it is not here."""
        return next((dataset for dataset in self.all() if _plain(dataset.name) == _plain(name)), None)

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
        """Hold the folder, and make it if missing.

        Raises SetupError when it cannot be written to or another labctl is at work in it.
        """
        make_public(self.folder)
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise SetupError(
                f"cannot write to {self.folder}", f"check its owner, or: export {HOME_VARIABLE}=/some/where"
            )
        with lock(self.lock, "the data sets"), _disk(self.folder):
            yield

    def put(self, fill: Callable[[Path], None]) -> Dataset:
        """Food-11 in a new folder, once that is filled and whole; what was there before goes then.

        Needs `busy`. Whatever `fill` raises, the data set of that name stays as it was.
        """
        there = self.folder / food11.NAME
        new, old = (self.folder / f".{state}-{there.name}" for state in ("new", "old"))
        try:
            for left in (new, old):  # by a labctl that was killed
                _remove(left)
            fill(model.make_folder(new))
            with held_back():
                if there.exists():
                    there.rename(old)
                new.rename(there)
        finally:
            with held_back(), contextlib.suppress(OSError):
                _remove(new)
                _remove(old)
        return model.read(there)

    def remove(self, name: str) -> Dataset | None:
        """Delete a data set; with Food-11 what was downloaded of it, too, which may be all that there is.

        Returns what it was, None for a download alone. Raises NotFoundError, SetupError.
        """
        downloaded = self.downloaded(name)
        dataset = self.find(name) if downloaded else self.get(name)
        with self.busy():
            if dataset is not None:
                _remove(dataset.folder)
            if downloaded:
                self.forget()
        return dataset

    def downloaded(self, name: str) -> int:
        """Bytes that have arrived of the data set of that name."""
        return self.arrived if _plain(name) == _plain(food11.NAME) else 0


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """Turn what the disk refuses into a SetupError."""
    try:
        yield
    except LabError:
        raise
    except OSError as error:
        where = error.filename or folder
        hint = "free some space" if error.errno == errno.ENOSPC else "check its owner and the disk"
        raise SetupError(f"cannot write {where}: {error.strerror or error}", hint) from error


def _plain(name: str) -> str:
    """The name of a data set without what people write differently."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
