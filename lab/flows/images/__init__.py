"""The images flow: lists, fetches, builds, saves and loads the images of a lab of containers.

The list of images, and the way `up` gets them, is in lab/runtime/compose/images; here are files of them.
"""

from lab.flows.images.archive import load, save
from lab.runtime.compose.images import (
    ImageNeed,
    build,
    missing,
    needs,
    pull,
    resolve,
    to_save,
    variant,
)

__all__ = [
    "ImageNeed",
    "build",
    "load",
    "missing",
    "needs",
    "pull",
    "resolve",
    "save",
    "to_save",
    "variant",
]
