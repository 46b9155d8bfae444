"""Draws pictures: a small data set of Food-11's layout for a machine without internet.

Each class has a colour and a shape; place, size and brightness are random, and so are the background, other
small shapes and noise. A small network tells the classes apart after a few passes, and not before: it is
nothing like food, but a model that learns nothing shows at once. Needs the standard library alone.
"""

from __future__ import annotations

import colorsys
import hashlib
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.ext.course.datasets.food11 import CLASSES, FOLDERS
from lab.ext.course.datasets.model import SPLITS, OnProgress, ignore_progress, make_folder, store

SIDE = 64
"""Width and height in pixels."""

NOISE = 0x1F
"""Each colour value of each pixel gets 0 to 31 of 255 on top."""

LEAST_FOR_VALIDATION = 2

SEED = 0
"""The same pictures are drawn each time."""

Colour = tuple[int, int, int]
Inside = Callable[[float, float], bool]
"""True for the points of the square -1..1 that belong to a shape."""

SHAPES: Sequence[Inside] = (
    lambda x, y: x * x + y * y <= 1,  # disc
    lambda x, y: abs(x) <= 0.8 and abs(y) <= 0.8,  # square
    lambda x, y: abs(x) <= (y + 1) / 2,  # triangle
    lambda x, y: 0.35 <= x * x + y * y <= 1,  # ring
    lambda x, y: min(abs(x), abs(y)) <= 0.3,  # cross
    lambda x, y: abs(x) + abs(y) <= 1,  # diamond
    lambda x, y: int((y + 1) * 2.5) % 2 == 0,  # bars across
    lambda x, y: int((x + 1) * 2.5) % 2 == 0,  # bars upright
    lambda x, y: min(abs(x - y), abs(x + y)) <= 0.4,  # the letter X
    lambda x, y: x * x + y * y <= 1 and y >= 0,  # half a disc
    lambda x, y: (int((x + 1) * 1.5) + int((y + 1) * 1.5)) % 2 == 0,  # chessboard
)
"""One for each class."""


def per_split(pictures: int) -> dict[str, int]:
    """Pictures of one class in each split, for so many in training."""
    fewer = max(LEAST_FOR_VALIDATION, pictures // 4)
    return {"training": pictures, "validation": fewer, "evaluation": fewer}


def draw(folder: Path, pictures: int, on_progress: OnProgress = ignore_progress) -> str:
    """Fill `folder` with PNG files, so many of each class for training and fewer for the other splits.

    They are the same each time. Returns the SHA-256 of their pixels.
    """
    digest = hashlib.sha256()
    done, total = 0, sum(per_split(pictures).values()) * len(CLASSES)
    for split in SPLITS:
        for number, kind in enumerate(FOLDERS):
            place = make_folder(folder / split / kind)
            for index in range(per_split(pictures)[split]):
                pixels = picture(number, random.Random(f"{SEED}/{split}/{number}/{index}"))
                digest.update(pixels)
                store(place / f"{number}_{index}.png", png(pixels, SIDE))
                done += 1
                on_progress("draw", done, total)
    return digest.hexdigest()


def picture(number: int, chance: random.Random) -> bytes:
    """The pixels of one picture of class `number`: 3 bytes each, row by row."""
    grey = chance.uniform(0.15, 0.6)
    rows = [bytearray(bytes(_colour(chance.random(), 0.15, grey)) * SIDE) for _ in range(SIDE)]
    for _ in range(chance.randint(1, 3)):  # what is beside the food
        other = _colour(chance.random(), chance.uniform(0.2, 0.9), chance.uniform(0.2, 0.8))
        _paint(rows, SHAPES[0], other, chance.uniform(3, 7), chance)
    hue = number / len(CLASSES) + chance.uniform(-0.03, 0.03)
    colour = _colour(hue, chance.uniform(0.65, 1.0), chance.uniform(0.55, 0.85))
    _paint(rows, SHAPES[number], colour, chance.uniform(13, 24), chance)
    size = SIDE * SIDE * 3
    noise = int.from_bytes(chance.randbytes(size), "big") & int.from_bytes(bytes([NOISE]) * size, "big")
    return (int.from_bytes(b"".join(rows), "big") + noise).to_bytes(size, "big")


def _colour(hue: float, saturation: float, value: float) -> Colour:
    """Red, green, blue, with room for the noise."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1.0, saturation, value)
    return int(red * (255 - NOISE)), int(green * (255 - NOISE)), int(blue * (255 - NOISE))


def _paint(
    rows: list[bytearray], inside: Inside, colour: Colour, radius: float, chance: random.Random
) -> None:
    """Put a shape of `radius` pixels somewhere; all of it is in the picture."""
    left, top = (chance.uniform(0, SIDE - 2 * radius) for _ in range(2))
    span = range(int(2 * radius))
    for down in span:
        row = rows[int(top) + down]
        y = (down + 0.5) / radius - 1
        for right in span:
            if inside((right + 0.5) / radius - 1, y):
                at = 3 * (int(left) + right)
                row[at : at + 3] = bytes(colour)


def png(pixels: bytes, side: int) -> bytes:
    """A square PNG file, 8 bits a colour (ISO/IEC 15948)."""
    width = 3 * side
    rows = b"".join(b"\0" + pixels[at : at + width] for at in range(0, len(pixels), width))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
