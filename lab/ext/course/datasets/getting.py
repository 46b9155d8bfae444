"""Puts Food-11 onto the shelf, the folder of data sets: drawn, downloaded, or from an archive that is here.

Nothing in the folder is ever half there, whenever labctl ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError, NotFoundError, RefusedError, SetupError, UsageError
from lab.ext.course.datasets import food11, model, pictures
from lab.ext.course.datasets.download import Download, UnreachableError, fingerprint, sha256_of, shown
from lab.ext.course.datasets.model import Dataset, OnProgress, ignore_progress
from lab.host.clock import MONOTONIC, Clock
from lab.host.files import HOME_VARIABLE, data_folder, lock, lock_of, make_public
from lab.host.interrupts import held_back
from lab.host.reading import open_file

if TYPE_CHECKING:
    from requests import Session

PICTURES = 20
"""Pictures of each class for training by default: enough to learn from in a few seconds."""

MOST_PICTURES = 2000

WITHOUT = (
    "without internet: `labctl lesson data food11 --synthetic 20`, or --from FILE with an archive you have"
)


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


def draw_food11(
    shelf: Shelf,
    pictures_of_each: int = PICTURES,
    *,
    force: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> tuple[Dataset, bool]:
    """A drawn data set of Food-11's layout; the second value says whether it was made now.

    Raises UsageError for a number that makes no sense, RefusedError when something else is there, also
    another number of drawn pictures, and `force` does not allow to replace it, SetupError when the folder
    cannot be written to.
    """
    if not 1 <= pictures_of_each <= MOST_PICTURES:
        raise UsageError(
            f"--synthetic {pictures_of_each}: must be 1 to {MOST_PICTURES} pictures of each class"
        )
    source = f"drawn: {pictures_of_each} of each class, seed {pictures.SEED}"

    def fill(folder: Path) -> None:
        sha256 = pictures.draw(folder, pictures_of_each, on_progress)
        model.write(folder, source=source, sha256=sha256, synthetic=True)

    with shelf.busy():
        there = _kept(shelf, synthetic=True, force=force)
        if there is not None and there.source != source:
            raise RefusedError(
                f"{there.folder} holds other pictures ({there.source}) than asked for ({source})",
                "--force replaces them",
            )
        return (there, False) if there is not None else (shelf.put(fill), True)


def ensure(name: str, say: Callable[[str], None], shelf: Shelf | None = None) -> Dataset:
    """The data set that a lesson needs: what is there, else drawn pictures; `say` is told of the latter.

    Raises what `draw_food11` raises.
    """
    shelf = shelf or Shelf()
    there = shelf.find(name)
    if there is not None and there.pictures and not there.missing:
        return there
    made, _ = draw_food11(shelf)
    say(f"drew {made.pictures} pictures in place of Food-11; the real ones: `labctl lesson data food11`")
    return made


def get_food11(
    shelf: Shelf,
    *,
    urls: Sequence[str] = food11.URLS,
    file: Path | None = None,
    sha256: str = "",
    force: bool = False,
    on_progress: OnProgress = ignore_progress,
    session: Session | None = None,
    clock: Clock = MONOTONIC,
) -> tuple[Dataset, bool]:
    """The published Food-11, from `file` or else from the first of `urls` that gives it.

    The second value says whether it was made now. The archive must have the SHA-256 `sha256`, where one is
    given; its pictures are counted in any case.
    Raises what `draw_food11` raises, NotFoundError for a file that is not there, and SetupError when nothing
    can be downloaded or the archive is not what it should be. What has arrived of it stays, also a whole
    archive with another SHA-256: the number may be what is wrong.
    """
    sha256 = sha256.lower()
    if sha256 and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise UsageError(f"--sha256 {sha256}: not 64 hexadecimal digits", "`sha256sum FILE` prints them")
    if file is not None:
        try:
            open_file(file, food11.LARGEST_IN_ALL).close()
        except OSError as error:
            hint = "give the zip archive of Food-11"
            raise NotFoundError(f"--from {file}: {error.strerror}", hint) from error
    with shelf.busy():
        there = _kept(shelf, synthetic=False, force=force)
        if there is not None:
            return there, False
        if file is not None:
            archive, source = file, str(file)
        else:
            archive, source = _download(shelf, urls, on_progress, session, clock)
        digest = sha256_of(archive, on_progress)
        if sha256 and digest != sha256:
            kept, again = ("", "") if file else ("; it is kept", f"; to download it again, delete {archive}")
            raise SetupError(
                f"the archive from {source} has the SHA-256 {digest}, not {sha256}{kept}",
                f"it is damaged, or was replaced: --sha256 says which one you want{again}",
            )

        def fill(folder: Path) -> None:
            food11.unpack(archive, folder, on_progress)
            model.write(folder, source=source, sha256=digest, synthetic=False)

        try:
            made = shelf.put(fill)
        except SetupError:  # going on with it would never do; a full disk is another error here
            if file is None:
                shelf.forget()
            raise
        shelf.forget()
        return made, True


def _download(
    shelf: Shelf, urls: Sequence[str], on_progress: OnProgress, session: Session | None, clock: Clock
) -> tuple[Path, str]:
    """The archive, from the first address that gives it, and that. Raises SetupError when none does."""
    problems, folder = [], model.make_folder(shelf.downloads)
    for url in urls:
        part = folder / f"{food11.NAME}-{fingerprint(url)[:8]}.zip.part"
        try:
            Download(url, part, session=session, on_progress=on_progress, clock=clock).fetch()
        except UnreachableError as error:
            problems.append(error.message)
        else:
            return part, shown(url)
    raise SetupError(f"cannot download Food-11: {'; '.join(problems)}", WITHOUT)


def _kept(shelf: Shelf, *, synthetic: bool, force: bool) -> Dataset | None:
    """The data set that is there and stays; None when it has to be made.

    Raises RefusedError when something else is there and `force` does not allow to replace it.
    """
    there = shelf.find(food11.NAME)
    if there is None or force:
        return None
    if there.missing or not there.pictures:
        lacks = f"lacks {there.missing} of its pictures" if there.missing else "holds no pictures"
        raise RefusedError(f"{there.folder} {lacks}", "--force replaces it")
    if there.synthetic is not synthetic:
        kinds = ("photographs", "drawn pictures")
        raise RefusedError(
            f"{there.folder} holds {kinds[there.synthetic]}, not {kinds[synthetic]}",
            "--force replaces them; `labctl lesson data rm food11` deletes them",
        )
    return there


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
