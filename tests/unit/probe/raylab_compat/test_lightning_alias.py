"""`lightning` as another name of `pytorch_lightning`, with small packages in the place of the real ones."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raylab_compat import lightning_alias

OURS = {
    "lightning_fabric/__init__.py": "class Fabric: ...\ndef seed_everything(seed): return seed\n",
    "lightning_fabric/utilities.py": "",
    "pytorch_lightning/__init__.py": "__version__ = '2.6.6'\n"
    "class Trainer: ...\nclass LightningModule: ...\nclass LightningDataModule: ...\nclass Callback: ...\n",
    "pytorch_lightning/callbacks/__init__.py": "from .early import EarlyStopping\n",
    "pytorch_lightning/callbacks/early.py": "class EarlyStopping: ...\n",
}
REAL = {
    "lightning/__init__.py": "real = True\n",
    "lightning/pytorch/__init__.py": "class Trainer: ...\n",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for packages, first on the path; what is imported from it is forgotten afterwards."""
    names = ("lightning", "pytorch_lightning", "lightning_fabric")
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}
    for name in before:
        del sys.modules[name]
    monkeypatch.setattr(sys, "meta_path", [importlib.machinery.PathFinder])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in names]:
        del sys.modules[name]
    sys.modules.update(before)


def place(site: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    importlib.invalidate_caches()


def test_both_names_are_the_same_modules_with_the_same_classes(site: Path) -> None:
    place(site, OURS)
    lightning_alias.install()
    early = importlib.import_module("lightning.pytorch.callbacks.early")
    lightning = importlib.import_module("lightning")
    assert lightning.pytorch is importlib.import_module("pytorch_lightning")
    assert lightning.fabric is importlib.import_module("lightning_fabric")
    assert lightning.Trainer is lightning.pytorch.Trainer
    assert early is importlib.import_module("pytorch_lightning.callbacks.early")
    assert lightning.pytorch.callbacks.EarlyStopping is early.EarlyStopping
    assert importlib.import_module("lightning.fabric.utilities") is lightning.fabric.utilities
    assert sum(str(module).count("callbacks/early.py") for module in set(sys.modules.values())) == 1


def test_lightning_gives_the_names_that_the_package_gives(site: Path) -> None:
    place(site, OURS)
    lightning_alias.install()
    names: dict[str, object] = {}
    exec("from lightning import *", names)
    exec("import lightning.pytorch as pl; from lightning import seed_everything, __version__", names)
    assert {"Trainer", "LightningModule", "LightningDataModule", "Callback", "Fabric"} <= set(names)
    assert names["__version__"] == "2.6.6"


def test_the_originals_keep_their_names_so_that_pickles_fit_everywhere(site: Path) -> None:
    place(site, OURS)
    lightning_alias.install()
    early = importlib.import_module("lightning.pytorch.callbacks.early")
    assert early.__spec__ is not None
    assert early.__name__ == early.__spec__.name == "pytorch_lightning.callbacks.early"
    assert importlib.import_module("lightning").pytorch.__spec__.name == "pytorch_lightning"
    assert b"pytorch_lightning" in pickle.dumps(early.EarlyStopping)
    elsewhere = b"clightning.pytorch.callbacks.early\nEarlyStopping\n."
    assert pickle.loads(elsewhere) is early.EarlyStopping


def test_a_lightning_that_is_installed_is_found_and_left_alone(site: Path) -> None:
    place(site, {**OURS, **REAL})
    lightning_alias.install()
    lightning = importlib.import_module("lightning")
    assert lightning.real
    theirs, ours = (
        importlib.import_module(name).Trainer for name in ("lightning.pytorch", "pytorch_lightning")
    )
    assert theirs is not ours
    assert importlib.util.find_spec("lightning.pytorch.callbacks") is None


def test_without_pytorch_lightning_there_is_no_lightning_either(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(site)])
    lightning_alias.install()
    assert importlib.util.find_spec("lightning") is None


@pytest.mark.parametrize("name", ["lightning.app", "lightning.pytorch.nothing", "lightning.fabric.no.thing"])
def test_what_is_not_there_is_missing_under_either_name(site: Path, name: str) -> None:
    place(site, OURS)
    lightning_alias.install()
    with pytest.raises(ModuleNotFoundError, match="lightning"):
        importlib.import_module(name)


def test_it_is_installed_once_and_asked_last(site: Path) -> None:
    lightning_alias.install()
    lightning_alias.install()
    assert [type(finder).__name__ for finder in sys.meta_path[1:]] == ["_Package"]
