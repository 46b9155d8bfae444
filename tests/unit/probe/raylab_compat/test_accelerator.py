"""Which device Lightning gets on simulated GPUs. The class of Lightning that chooses is stood in for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from raylab_compat import accelerator

MODULE = "pytorch_lightning.trainer.connectors.accelerator_connector"


class Connector:
    """Chooses as Lightning does where there is no GPU."""

    def __init__(
        self, devices: Any = "auto", num_nodes: int = 1, accelerator: Any = "auto", strategy: Any = "auto"
    ) -> None:
        if accelerator in ("gpu", "cuda"):
            raise RuntimeError("No supported gpu backend found!")
        self.accelerator, self.devices, self.num_nodes, self.strategy = (
            accelerator,
            devices,
            num_nodes,
            strategy,
        )


class CUDAAccelerator:
    """Lightning's has this name."""


@pytest.fixture
def connector(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A class of its own for each test, changed."""
    monkeypatch.setattr(accelerator, "_said", [])
    changed = type("Changed", (Connector,), {"__init__": Connector.__init__})
    accelerator.use_the_cpu(changed)
    return changed


@pytest.mark.parametrize("asked", ["gpu", "cuda", CUDAAccelerator()])
@pytest.mark.parametrize(
    ("devices", "processes"), [("auto", "auto"), (1, 1), ([0], 1), (-1, 1), ("0,", 1), ([0, 1], 2), (2, 2)]
)
def test_a_trainer_that_asks_for_gpus_gets_the_cpu(
    connector: Any, asked: Any, devices: Any, processes: Any
) -> None:
    made = connector(accelerator=asked, devices=devices, num_nodes=3)
    assert (made.accelerator, made.devices, made.num_nodes) == ("cpu", processes, 3)


@pytest.mark.parametrize("asked", ["cpu", "tpu", "mps"])
def test_what_asks_for_no_nvidia_gpu_gets_what_it_asks_for(connector: Any, asked: str) -> None:
    made = connector([0], accelerator=asked)
    assert (made.accelerator, made.devices) == (asked, [0])


def test_auto_keeps_out_a_real_gpu_unless_the_strategy_brings_its_accelerator(connector: Any) -> None:
    assert connector().accelerator == "cpu"
    assert connector(strategy=SimpleNamespace(_accelerator=None)).accelerator == "cpu"
    assert connector(strategy=SimpleNamespace(_accelerator=object())).accelerator == "auto"


def test_it_is_said_once_and_only_where_a_script_asked_for_gpus(
    connector: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    connector()
    connector(accelerator="cpu")
    assert capsys.readouterr().err == ""
    for _ in range(2):
        connector(accelerator="gpu")
    assert capsys.readouterr().err == accelerator.SAID + "\n"


def test_only_the_first_rank_says_it(
    connector: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert connector(accelerator="gpu").accelerator == "cpu"
    assert capsys.readouterr().err == ""


def test_wrong_arguments_are_refused_as_before(connector: Any) -> None:
    with pytest.raises(TypeError, match="gpus"):
        connector(gpus=1)


@pytest.fixture
def lightning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with Lightning's connector, not imported yet; returns the file of that module."""
    file = tmp_path / f"{MODULE.replace('.', '/')}.py"
    file.parent.mkdir(parents=True)
    for folder in (*file.relative_to(tmp_path).parents,)[:-1]:
        (tmp_path / folder / "__init__.py").touch()
    before = {name: module for name, module in sys.modules.items() if name.startswith("pytorch_lightning")}
    for name in before:
        del sys.modules[name]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(accelerator, "_said", [])
    importlib.invalidate_caches()
    yield file
    for name in [name for name in sys.modules if name.startswith("pytorch_lightning")]:
        del sys.modules[name]
    sys.modules.update(before)


CLASS = """
class _AcceleratorConnector:
    def __init__(self, accelerator="auto", devices="auto", strategy="auto"):
        self.got = (accelerator, devices)
"""


@pytest.mark.parametrize(("gpu", "got"), [("simulated", ("cpu", 1)), ("nvidia", ("gpu", [0]))])
def test_lightning_is_changed_as_it_is_imported_and_only_in_a_simulated_lab(
    lightning: Path, monkeypatch: pytest.MonkeyPatch, gpu: str, got: tuple[str, Any]
) -> None:
    lightning.write_text(CLASS)
    monkeypatch.setenv("RAYLAB_GPU", gpu)
    accelerator.install()
    module = importlib.import_module(MODULE)
    assert module._AcceleratorConnector("gpu", [0]).got == got
    assert module.__file__ == str(lightning)


def test_a_lightning_that_has_changed_is_imported_all_the_same(
    lightning: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lightning.write_text("present = True\n")
    monkeypatch.setenv("RAYLAB_GPU", "simulated")
    accelerator.install()
    assert importlib.import_module(MODULE).present
    assert "_AcceleratorConnector" in capsys.readouterr().err
