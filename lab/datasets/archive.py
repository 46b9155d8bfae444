"""Unpacks a zip archive of Food-11 into a folder for each split and class."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections import Counter
from pathlib import Path, PurePosixPath

from lab.datasets import food11
from lab.datasets.model import SPLITS, OnProgress, ignore_progress, make_folder, store
from lab.errors import SetupError
from lab.host.reading import open_file

LARGEST_PICTURE = 50_000_000
LARGEST_IN_ALL = 20_000_000_000
"""Bytes: more than these is no archive of Food-11."""

HINT = "download it again, or give another one: --url URL, --from FILE"


def unpack(archive: Path, folder: Path, on_progress: OnProgress = ignore_progress) -> None:
    """Put the pictures of `archive` into `folder`/split/class_NN.

    No name of an entry becomes a path: only its split, class and last part count. Raises SetupError for a
    file that is no zip, is damaged, leads outside, or does not hold the pictures that were published.
    """
    try:
        with open_file(archive) as file, zipfile.ZipFile(file) as opened:
            chosen = _choose(opened, archive)
            for done, (entry, (split, kind, name)) in enumerate(chosen, start=1):
                store(make_folder(folder / split / kind) / name, opened.read(entry))
                on_progress("unpack", done, len(chosen))
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SetupError(f"{archive} is no zip archive, or a damaged one: {error}", HINT) from error
    except (NotImplementedError, RuntimeError) as error:  # a compression of its own, or a password
        raise SetupError(f"{archive} cannot be unpacked: {error}", HINT) from error


def _choose(opened: zipfile.ZipFile, archive: Path) -> list[tuple[zipfile.ZipInfo, tuple[str, str, str]]]:
    """The entries to unpack and where each belongs. Raises SetupError."""
    chosen: list[tuple[zipfile.ZipInfo, tuple[str, str, str]]] = []
    size = 0
    for entry in opened.infolist():
        path = PurePosixPath(entry.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in entry.filename:
            raise SetupError(f"{archive}: its entry {entry.filename!r} leads outside the folder", HINT)
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise SetupError(f"{archive}: its entry {entry.filename!r} is a link", HINT)
        where = None if entry.is_dir() else food11.place(path.as_posix())
        if where is None:
            continue
        size += entry.file_size
        if entry.file_size > LARGEST_PICTURE or size > LARGEST_IN_ALL:
            raise SetupError(f"{archive}: its pictures are larger than those of Food-11", HINT)
        chosen.append((entry, where))
    _compare(Counter((split, kind) for _, (split, kind, _) in chosen), archive)
    if len({where for _, where in chosen}) != len(chosen):
        raise SetupError(f"{archive} holds pictures twice", HINT)
    return chosen


def _compare(found: Counter[tuple[str, str]], archive: Path) -> None:
    """Raises SetupError unless each class has as many pictures as published."""
    wanted = {
        (split, kind): count
        for split in SPLITS
        for kind, count in zip(food11.FOLDERS, food11.COUNTS[split], strict=True)
    }
    if not found:
        raise SetupError(f"{archive} holds no pictures in training, validation and evaluation", HINT)
    for split in SPLITS:
        have = sum(number for (each, _), number in found.items() if each == split)
        want = sum(food11.COUNTS[split])
        if have != want:
            raise SetupError(f"{archive} holds {have} pictures in {split}; Food-11 has {want}", HINT)
    for where, want in wanted.items():
        if found[where] != want:
            split, kind = where
            raise SetupError(f"{archive} holds {found[where]} pictures in {split}/{kind}, not {want}", HINT)
