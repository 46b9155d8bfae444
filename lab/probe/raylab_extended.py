"""What extensions of the lab bring to its nodes: modules of packages that may be on the path."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from typing import Any

EXTENSIONS = ("raylab_health", "raylab_recovery")
"""Packages of extensions that may be on the path of a node, in the order in which they begin there: the
keeper of raylab_recovery forks, and what came later would begin anew with each Ray. One may have a module
`table` with PATCHES, one `expectations` with EXPECTATIONS, and one `start` with `begin`
(`raylab_patches.ray_start`)."""


def extended(name: str) -> list[Any]:
    """The modules of this name of the extensions that are there."""
    modules = []
    for package in EXTENSIONS:
        try:
            modules.append(import_module(f"{package}.{name}"))
        except ModuleNotFoundError as error:
            if error.name not in {package, f"{package}.{name}"}:
                raise
    return modules
