"""The examples of the workspace, run with Ray Train played by the test."""

from __future__ import annotations

import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT


class Saved:
    """A checkpoint that outlives the folder it was made from, as Ray Train's does."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    @classmethod
    def from_directory(cls, folder: str) -> Saved:
        return cls({path.name: path.read_bytes() for path in Path(folder).iterdir()})

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in self.files.items():
                (Path(folder) / name).write_bytes(content)
            yield folder


class LostError(Exception):
    """The worker is gone."""


def test_the_example_goes_on_after_a_loss_with_its_weights_and_its_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    reports: list[tuple[int, Saved]] = []

    def report(metrics: dict[str, Any], checkpoint: Saved) -> None:
        reports.append((metrics["epoch"], checkpoint))
        if len(reports) == 3:
            raise LostError

    train_func = example(monkeypatch, report, lambda: reports[-1][1] if reports else None)
    with pytest.raises(LostError):
        train_func({"epochs": 5, "steps": 2})
    begun_with: list[Any] = []
    load = torch.nn.Module.load_state_dict

    def load_and_tell(self: Any, state: Any) -> Any:
        begun_with.append(state)
        return load(self, state)

    monkeypatch.setattr(torch.nn.Module, "load_state_dict", load_and_tell)
    train_func({"epochs": 5, "steps": 2})

    assert [epoch for epoch, _ in reports] == [1, 2, 3, 4, 5]
    with reports[2][1].as_directory() as folder:
        saved = torch.load(Path(folder) / "state.pt")
    assert all(torch.equal(saved["model"][name], begun_with[0][name]) for name in saved["model"])
    with reports[-1][1].as_directory() as folder:
        steps = torch.load(Path(folder) / "state.pt")["optimizer"]["state"][0]["step"]
    assert steps == 10, "the optimizer began anew"


def example(
    monkeypatch: pytest.MonkeyPatch, report: Callable[..., None], get_checkpoint: Callable[[], Saved | None]
) -> Callable[[dict[str, Any]], None]:
    """The example's training function, with Ray Train played by the test."""
    ray, train, ray_torch = (types.ModuleType(name) for name in ("ray", "ray.train", "ray.train.torch"))
    ray.__dict__["train"] = train
    train.__dict__.update(
        report=report, get_checkpoint=get_checkpoint, Checkpoint=Saved,
        FailureConfig=object, RunConfig=object, ScalingConfig=object, torch=ray_torch,
    )  # fmt: skip
    ray_torch.__dict__["TorchTrainer"] = object
    for module in (ray, train, ray_torch):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    namespace: dict[str, Any] = {"__name__": "resumable"}
    exec(compile((ROOT / "workspace/examples/resumable.py").read_text(), "resumable.py", "exec"), namespace)
    function: Callable[[dict[str, Any]], None] = namespace["train_func"]
    return function
