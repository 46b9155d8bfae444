"""`lightning` as a second name of `pytorch_lightning`.

PyTorch Lightning is published under both names: two packages with equal classes that are not the same
classes. Ray Train uses `lightning` where it is installed and then refuses a script that uses
`pytorch_lightning`. The lab installs the latter alone and makes `lightning.pytorch` and `lightning.fabric`
names of the same modules, so that both kinds of script work. Where `lightning` is installed, as by a job's
own runtime environment, it is found first and this module does nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

ALIAS = "lightning"
PACKAGES = {"pytorch": "pytorch_lightning", "fabric": "lightning_fabric"}
"""Submodule of `lightning` -> the package that it is."""

NAMES = {
    "pytorch": ("Callback", "LightningDataModule", "LightningModule", "Trainer", "__version__"),
    "fabric": ("Fabric", "seed_everything"),
}
"""Names that `lightning` itself exports, by the submodule that they come from."""


class _Package:
    """Finds `lightning`, and is asked last: only where none is installed."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name != ALIAS or not all(_installed(package) for package in PACKAGES.values()):
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(ALIAS, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Python makes an empty one."""

    def exec_module(self, module: ModuleType) -> None:
        from importlib import import_module

        if not any(isinstance(finder, _Modules) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Modules())
        for name, package in PACKAGES.items():
            part = import_module(package)
            sys.modules[f"{ALIAS}.{name}"] = part
            setattr(module, name, part)
            for attribute in NAMES[name]:
                setattr(module, attribute, getattr(part, attribute))
        vars(module)["__all__"] = [attribute for names in NAMES.values() for attribute in names]


class _Modules:
    """Finds `lightning.pytorch.x`, and is asked first: on the packages' own path it would be loaded again."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        top, _, rest = name.partition(".")
        part, _, module = rest.partition(".")
        if top != ALIAS or part not in PACKAGES:
            return None
        from importlib.machinery import ModuleSpec

        original = f"{PACKAGES[part]}.{module}" if module else PACKAGES[part]
        return ModuleSpec(name, _Same(original)) if _installed(original) else None  # type: ignore[arg-type]


class _Same:
    """Gives a module that exists under another name, and leaves it as it was."""

    def __init__(self, original: str) -> None:
        self._original = original
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from importlib import import_module

        module = import_module(self._original)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # importlib has put the alias's there


def _installed(module: str) -> bool:
    from importlib.util import find_spec

    try:
        return module in sys.modules or find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def install() -> None:
    """Let this process know both names; once is enough."""
    if not any(isinstance(finder, _Package) for finder in sys.meta_path):
        sys.meta_path.append(_Package())
