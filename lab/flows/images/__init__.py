"""What `labctl images` does: the images of a lab of containers are listed, fetched, built, saved and loaded.

Which there are, and how `up` gets them, is in lab/runtime/compose/images; here are only files of images.
"""

from lab.flows.images.archive import Archive, load, read, save
from lab.runtime.compose.images import (
    Built,
    ImageNeed,
    ResolvedImages,
    build,
    ensure,
    missing,
    needs,
    pull,
    resolve,
    to_save,
    variant,
)

__all__ = [
    "Archive",
    "Built",
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
