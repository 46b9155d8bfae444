"""Food-11: its classes, how many pictures each has, where it is published, and how archives name a picture.

Made at EPFL's Multimedia Signal Processing Group (A. Singla, L. Yuan, T. Ebrahimi: "Food/Non-food Image
Classification and Food Categorization using Pre-Trained GoogLeNet Model", 2016):
https://www.epfl.ch/labs/mmspg/downloads/food-image-datasets/
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from lab.datasets.model import PICTURES, SPLITS
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

BYTES = 1_200_000_000
"""About the size of the archive, and of the pictures, where a server does not say."""


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
