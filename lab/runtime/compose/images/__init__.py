"""The images that a lab of containers runs on: which it needs, and how they get here."""

from lab.runtime.compose.images.archive import Archive, load, read, save
from lab.runtime.compose.images.building import Built, build
from lab.runtime.compose.images.choose import ensure, missing, needs, pull, resolve, to_save
from lab.runtime.compose.images.engine import ImageEngine
from lab.runtime.compose.images.model import ImageNeed, ResolvedImages, variant

__all__ = [
    "Archive",
    "Built",
    "ImageEngine",
    "ImageNeed",
    "ResolvedImages",
    "build",
    "ensure",
    "load",
    "missing",
    "needs",
    "pull",
    "read",
    "resolve",
    "save",
    "to_save",
    "variant",
]
