"""The recipe `digits`: what it must not save, and what its ranks train on when their number changes."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest

from tests.conftest import ROOT

CONFIG = {"seed": 7, "batch_size": 16, "workers": 2}


@pytest.fixture(scope="module")
def digits() -> Any:
    """The script as a module."""
    spec = spec_from_file_location("digits_train", ROOT / "workspace" / "digits" / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_the_attempt_before_anything_is_saved(
    digits: Any, loss: float
) -> None:
    with pytest.raises(FloatingPointError, match=r"epoch 4 is (nan|inf): nothing is saved"):
        digits.check_finite({"loss": loss, "epoch": 4})
    digits.check_finite({"loss": 0.5, "epoch": 4})


def test_the_images_of_a_step_do_not_depend_on_the_number_of_workers(digits: Any) -> None:
    import torch
    from torch.utils.data import TensorDataset

    images = TensorDataset(torch.arange(1440))

    def steps(world_size: int) -> list[set[int]]:
        loaders = [digits.train_loader(images, CONFIG, rank, world_size) for rank in range(world_size)]
        for loader in loaders:
            loader.sampler.set_epoch(3)
        return [
            set(torch.cat([batch[0] for batch in batches]).tolist()) for batches in zip(*loaders, strict=True)
        ]

    assert steps(1) == steps(2)
    assert len(steps(2)) == 45
    assert len(steps(4)) == 45
