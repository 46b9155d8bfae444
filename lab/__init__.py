"""raylab: a small Ray cluster with an object store on one machine, broken on purpose, recovery proven.

    from lab import Lab

docs/python.md has the rest. Nothing heavy is imported before `Lab` is asked for.
"""

from __future__ import annotations

from importlib import import_module

from lab.version import __version__

__all__ = ["Lab", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Lab":  # by its name: who reads a module of this package need not read the facade
        return import_module("lab.lab").Lab
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
