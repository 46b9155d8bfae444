"""Modules of a recipe of workspace/, imported as where Ray runs them: their folder is on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace

from tests.conftest import ROOT


@contextmanager
def modules_of(recipe: str) -> Iterator[SimpleNamespace]:
    """Every module of the recipe's folder, by its name; afterwards none is imported any more."""
    folder = ROOT / "workspace" / recipe
    names = sorted(path.stem for path in folder.glob("*.py"))
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(**{name: import_module(name) for name in names})
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)
