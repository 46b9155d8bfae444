"""raylab: a small Ray cluster with an object store on one machine, broken on purpose, recovery proven.

    from lab import Lab

docs/python.md has the rest. Nothing heavy is imported before `Lab` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.version import __version__

if TYPE_CHECKING:
    from lab.lab import Lab

__all__ = ["Lab", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Lab":
        from lab.lab import Lab

        return Lab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
