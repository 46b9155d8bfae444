"""How a data set comes onto the shelf: drawn, downloaded, or from an archive that is here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lab.datasets import food11, pictures
from lab.datasets.model import Dataset, OnProgress, ignore_progress
from lab.datasets.shelf import NAMES, Filled, Shelf, allow
from lab.errors import NotFoundError, UsageError

PICTURES = 20
"""Pictures of each class for training, where nobody says: enough to learn from in a few seconds."""

MOST_PICTURES = 2000
SEED = 0


def draw_food11(
    shelf: Shelf,
    pictures_of_each: int = PICTURES,
    seed: int = SEED,
    *,
    force: bool = False,
    on_progress: OnProgress = ignore_progress,
) -> tuple[Dataset, bool]:
    """A drawn data set of Food-11's layout; the second value says whether it was made now.

    Raises UsageError for a number that makes no sense, RefusedError when something else is there and `force`
    does not allow to replace it, SetupError when the folder cannot be written to.
    """
    if not 1 <= pictures_of_each <= MOST_PICTURES:
        raise UsageError(f"--synthetic {pictures_of_each}: not 1 to {MOST_PICTURES} pictures of each class")

    def fill(folder: Path) -> Filled:
        sha256 = pictures.draw(folder, pictures_of_each, seed, on_progress)
        return Filled(f"drawn: {pictures_of_each} of each class, seed {seed}", sha256, synthetic=True)

    with shelf.busy():
        there = shelf.find(food11.NAME)
        if not allow(there, synthetic=True, force=force) and there is not None:
            return there, False
        return shelf.put(food11.NAME, fill), True


def ensure(name: str, say: Callable[[str], None], shelf: Shelf | None = None) -> Dataset:
    """The data set that a lesson needs: what is there, else drawn pictures; `say` is told of the latter.

    Raises NotFoundError for an unknown name, and what `draw_food11` raises.
    """
    if NAMES.get(name) != food11.NAME:
        raise NotFoundError(f"there is no data set {name!r}", f"known: {', '.join(NAMES)}")
    shelf = shelf or Shelf()
    there = shelf.find(name)
    if there is not None and there.pictures and not there.missing:
        return there
    made, _ = draw_food11(shelf)
    say(f"drew {made.pictures} pictures in place of Food-11 (`labctl data food11` downloads the real ones)")
    return made
