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
            chosen = _choose(opened, archive)
        with opened:
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
    counts = Counter((split, kind) for _, (split, kind, _) in chosen)
    if not counts:
        raise SetupError(f"{archive} holds no pictures in {', '.join(SPLITS)}", HINT)
    for split in SPLITS:
        for kind, want in zip(FOLDERS, COUNTS[split], strict=True):
            have = counts[split, kind]
            if have != want:
                raise SetupError(f"{archive} holds {have} pictures in {split}/{kind}, not {want}", HINT)
    if len({where for _, where in chosen}) != len(chosen):
        raise SetupError(f"{archive} holds some pictures twice", HINT)
    return chosen


def place(entry: str) -> tuple[str, str, str] | None:
    """The place of a picture of an archive: (split, class folder, file name); None for what is no picture.

    Archives name the class in the file (`training/3_12.jpg`, as published) or in a folder
    (`training/class_03/12.jpg`, `training/Egg/12.jpg`, as some mirrors do), below any other folder.
    """
    *folders, name = PurePosixPath(entry).parts or ("",)
    if PurePosixPath(name).suffix.lower() not in PICTURES or name.startswith(".") or "__MACOSX" in folders:
        return None
    above = [folder.lower() for folder in folders]
    split = next((folder for folder in reversed(above) if folder in SPLITS), None)
    inner = above[len(above) - above[::-1].index(split) :] if split else []
    if not split or len(inner) > 1:
        return None
    kind = _class_of(inner[0] if inner else re.sub(r"_\d+\..*$", "", name))
    return None if kind is None else (split, FOLDERS[kind], name)


def _class_of(folder: str) -> int | None:
    """The class that a folder or file is named after, by number or by name."""
    if match := re.fullmatch(r"(?:class_)?(\d{1,2})", folder):
        return int(match[1]) if int(match[1]) < len(CLASSES) else None
    plain = re.sub(r"[^a-z]+", "", folder)
    names = [re.sub(r"[^a-z]+", "", name.lower()) for name in CLASSES]
    return names.index(plain) if plain in names else None
