"""Changes a module of somebody else's right after a process has imported it, and imports nothing itself."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class AfterImport:
    """Sees these modules come, has each found by others, and changes it once it is loaded."""

    def __init__(self, changes: Mapping[str, Callable[[ModuleType], None]]) -> None:
        self.changes = changes

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name not in self.changes:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]  # another of this class may want it, too
        for finder in behind:
            ask = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = ask(name, path, target) if ask else None
            if spec is not None and spec.loader is not None:
                _change_after(spec.loader, self.changes[name])
                return spec
        return None


def _change_after(loader: Any, change: Callable[[ModuleType], None]) -> None:
    load = loader.exec_module

    def load_and_change(module: ModuleType) -> None:
        load(module)
        _change(module, change)

    loader.exec_module = load_and_change


def _change(module: ModuleType, change: Callable[[ModuleType], None]) -> None:
    try:
        change(module)
    except Exception as error:
        print(f"raylab: {module.__name__} is left as it is: {error!r}", file=sys.stderr)


def after_import(changes: Mapping[str, Callable[[ModuleType], None]]) -> None:
    """Change these modules in this process: module -> what does it; once is enough.

    Those that are imported already, as in a fork of a process that imported them ahead, are changed at once.
    """
    if any(isinstance(finder, AfterImport) and finder.changes is changes for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, AfterImport(changes))
    for name, change in changes.items():
        if name in sys.modules:
            _change(sys.modules[name], change)
