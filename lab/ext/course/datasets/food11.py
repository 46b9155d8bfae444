"""Food-11: its classes and numbers of pictures, where it is published, and its zip archive unpacked.

Made at EPFL's Multimedia Signal Processing Group (A. Singla, L. Yuan, T. Ebrahimi: "Food/Non-food Image
Classification and Food Categorization using Pre-Trained GoogLeNet Model", 2016):
https://www.epfl.ch/labs/mmspg/downloads/food-image-datasets/
"""

from __future__ import annotations

import contextlib
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from lab.errors import SetupError
from lab.ext.course.datasets.model import PICTURES, SPLITS, OnProgress, ignore_progress, make_folder, store
from lab.host.archives import ZIP_ERRORS
from lab.host.reading import open_file
from lab.topology import FOOD11

NAME = FOOD11

CLASSES = (
    "Bread",
    "Dairy product",
    "Dessert",
    "Egg",
    "Fried food",
    "Meat",
    "Noodles/Pasta",
    "Rice",
    "Seafood",
    "Soup",
    "Vegetable/Fruit",
)
"""Names in the order of the class numbers."""

FOLDERS = tuple(f"class_{number:02d}" for number in range(len(CLASSES)))
"""The folder of each class in each split, as in the course."""

COUNTS = {
    "training": (994, 429, 1500, 986, 848, 1325, 440, 280, 855, 1500, 709),
    "validation": (362, 144, 500, 327, 326, 449, 147, 96, 347, 500, 232),
    "evaluation": (368, 148, 500, 335, 287, 432, 147, 96, 303, 500, 231),
}
"""Pictures of each class in the published data set, 16,643 in all."""

URLS = (
    "https://nyu.box.com/shared/static/m5kvcl25hfpljul3elhu6xz8y2w61op4.zip",
    "https://s3-us-west-2.amazonaws.com/static.pyimagesearch.com/food-datasets/Food-11.zip",
)
"""Public copies, asked in this order: that of the course, then that of a tutorial on PyImageSearch.
Neither publisher names a checksum."""

LARGEST_PICTURE = 50_000_000
LARGEST_IN_ALL = 20_000_000_000
"""Bytes: more than these is no archive of Food-11."""

HINT = "download it again, or give another one: --url URL, --from FILE"


def unpack(archive: Path, folder: Path, on_progress: OnProgress = ignore_progress) -> None:
    """Put the pictures of `archive` into `folder`/split/class_NN.

    No name of an entry becomes a path: only its split, class and last part count. Raises SetupError for a
    file that is no zip, is damaged, leads outside, or does not hold the pictures that were published.
    """
    with open_file(archive) as file:
        with _reading(archive):
            opened = zipfile.ZipFile(file)
        with opened:
            with _reading(archive):
                chosen = _choose(opened, archive)
            for done, (entry, (split, kind, name)) in enumerate(chosen, start=1):
                with _reading(archive):
                    data = opened.read(entry)
                store(make_folder(folder / split / kind) / name, data)
                on_progress("unpack", done, len(chosen))


@contextlib.contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except ZIP_ERRORS as error:
        raise SetupError(f"{archive} is not a zip archive, or a damaged one: {error}", HINT) from error


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
        where = None if entry.is_dir() else place(path.as_posix())
        if where is None:
            continue
        size += entry.file_size
        if entry.file_size > LARGEST_PICTURE or size > LARGEST_IN_ALL:
            raise SetupError(f"{archive}: its pictures are larger than those of Food-11", HINT)
        chosen.append((entry, where))
    _compare(Counter((split, kind) for _, (split, kind, _) in chosen), archive)
    if len({where for _, where in chosen}) != len(chosen):
        raise SetupError(f"{archive} holds some pictures twice", HINT)
    return chosen


def _compare(counts: Counter[tuple[str, str]], archive: Path) -> None:
    """Refuse an archive whose classes have not as many pictures as published. Raises SetupError."""
    wanted = {
        (split, kind): count for split in SPLITS for kind, count in zip(FOLDERS, COUNTS[split], strict=True)
    }
    if not counts:
        raise SetupError(f"{archive} holds no pictures in training, validation and evaluation", HINT)
    for split in SPLITS:
        have = sum(number for (part, _), number in counts.items() if part == split)
        want = sum(COUNTS[split])
        if have != want:
            raise SetupError(f"{archive} holds {have} pictures in {split}; Food-11 has {want}", HINT)
    for where, want in wanted.items():
        if counts[where] != want:
            split, kind = where
            raise SetupError(f"{archive} holds {counts[where]} pictures in {split}/{kind}, not {want}", HINT)


def place(entry: str) -> tuple[str, str, str] | None:
    """The place of a picture of an archive: (split, class folder, file name); None for what is no picture.

    Archives name the class in the file (`training/3_12.jpg`, as published) or in a folder
    (`training/class_03/12.jpg`, `training/Egg/12.jpg`, as some mirrors do), below any other folder.
    """
    parts = PurePosixPath(entry).parts
    name = parts[-1] if parts else ""
    if PurePosixPath(name).suffix.lower() not in PICTURES or name.startswith("."):
        return None
    if "__MACOSX" in parts:
        return None
    above = [part.lower() for part in parts[:-1]]
    split = next((part for part in reversed(above) if part in SPLITS), None)
    if split is None:
        return None
    inner = above[len(above) - above[::-1].index(split) :]
    if inner:
        number = _class_of(inner[0]) if len(inner) == 1 else None
    else:
        match = re.match(r"(\d{1,2})_\d+\.", name)
        number = int(match[1]) if match and int(match[1]) < len(CLASSES) else None
    return None if number is None else (split, FOLDERS[number], name)


def _class_of(folder: str) -> int | None:
    """The class that a folder is named after, by number or by name."""
    if match := re.fullmatch(r"(?:class_)?(\d{1,2})", folder):
        return int(match[1]) if int(match[1]) < len(CLASSES) else None
    plain = re.sub(r"[^a-z]+", "", folder)
    names = [re.sub(r"[^a-z]+", "", name.lower()) for name in CLASSES]
    return names.index(plain) if plain in names else None
