"""The count of an optimizer's steps, and the manifest of a checkpoint that is written in its upload."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch


@pytest.fixture
def optimizer() -> torch.optim.Optimizer:
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    return torch.optim.SGD([weight], lr=0.1)


def test_every_step_of_any_optimizer_is_counted_from_the_beginning_of_the_training_function(
    optimizer: torch.optim.Optimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.optim import optimizer as module

    from raylab_ledger.steps import Steps

    monkeypatch.setattr(module, "_global_optimizer_post_hooks", OrderedDict())
    steps = Steps()
    assert steps.done is None
    optimizer.step()
    steps.watch()
    assert steps.done == 0
    optimizer.step()
    optimizer.step()
    assert steps.done == 2


def test_a_step_that_only_creates_the_optimizers_state_is_not_counted(
    optimizer: torch.optim.Optimizer,
) -> None:
    from raylab_ledger.steps import Steps

    steps = Steps()
    optimizer.param_groups[0]["lr"] = 0.0
    steps.after_step(optimizer, (), {})
    assert steps.done == 0
    optimizer.param_groups[0]["lr"] = 0.1
    steps.after_step(optimizer, (), {})
    assert steps.done == 1


def test_a_function_that_has_not_imported_pytorch_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from raylab_ledger.steps import Steps

    monkeypatch.delitem(__import__("sys").modules, "torch")
    steps = Steps()
    steps.watch()
    assert steps.done is None


def test_files_that_a_script_writes_in_its_own_upload_are_in_the_ledger(tmp_path: Path) -> None:
    from raylab_ledger.rank import Hashed

    def upload(checkpoint: Any, name: str) -> Any:
        (Path(checkpoint.path) / "weights.pt").write_bytes(b"weights")
        return name

    hashed = Hashed(upload)
    assert hashed.send(SimpleNamespace(path=str(tmp_path)), "checkpoint_1") == "checkpoint_1"
    assert hashed.files is not None
    assert hashed.files["weights.pt"]["size"] == 7


def test_an_upload_that_leaves_no_file_proves_nothing(tmp_path: Path) -> None:
    from raylab_ledger.rank import Hashed

    hashed = Hashed(lambda checkpoint, name: checkpoint)
    hashed.send(SimpleNamespace(path=str(tmp_path)), "checkpoint_1")
    assert hashed.files is None


def test_each_step_is_told_with_the_number_that_the_optimizer_has_restored() -> None:
    from raylab_ledger.steps import Steps

    def adam() -> torch.optim.Optimizer:
        weight = torch.nn.Parameter(torch.ones(2))
        weight.grad = torch.ones(2)
        return torch.optim.Adam([weight], lr=0.1)

    numbers: list[int] = []
    steps = Steps(numbers.append)
    first = adam()
    for _ in range(3):
        first.step()
        steps.after_step(first, (), {})
    again = adam()
    again.load_state_dict(first.state_dict())
    again.step()
    steps.after_step(again, (), {})
    assert numbers == [1, 2, 3, 4]


def test_an_optimizer_that_does_not_count_is_left_alone(optimizer: torch.optim.Optimizer) -> None:
    from raylab_ledger.steps import Steps

    numbers: list[int] = []
    steps = Steps(numbers.append)
    optimizer.step()
    steps.after_step(optimizer, (), {})
    assert (steps.done, numbers) == (1, [])
