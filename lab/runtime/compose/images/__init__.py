"""The images that a lab of containers runs on: which it needs, and how they get here."""

from lab.runtime.compose.images.building import Built, build
from lab.runtime.compose.images.choose import WAYS, ensure, missing, needs, pull, resolve, to_save
from lab.runtime.compose.images.model import ImageNeed, variant

__all__ = [
    "WAYS",
    "Built",
    "ImageNeed",
    "build",
    "ensure",
    "missing",
    "needs",
    "pull",
    "resolve",
    "to_save",
    "variant",
]
