"""The recipe `llm`: training, its checkpoints and its resume, with Ray Train played by the test."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pyarrow import fs

CPU = torch.device("cpu")


class LostError(Exception):
    """The worker is gone."""


class RayTrain:
    """Ray Train for one rank: keeps what is reported, and loses the worker after a report."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reports: list[dict[str, Any]] = []
        self.committed: list[Path] = []
        self.numbers = itertools.count()
        self.lost_after = 0
        self.commits = True
        """False: the node dies before an upload is complete."""

    def report(
        self,
        metrics: dict[str, Any],
        checkpoint: Any = None,
        checkpoint_upload_mode: Any = None,
        checkpoint_upload_fn: Callable[..., Any] | None = None,
    ) -> None:
        assert checkpoint_upload_mode.value == "ASYNC"
        assert checkpoint_upload_fn is not None
        assert not list(Path(checkpoint.path).iterdir()), "the training waited for the files"
        self.reports.append(metrics)
        stored = checkpoint_upload_fn(checkpoint, f"checkpoint-{next(self.numbers)}")
        if self.commits:
            self.committed.append(Path(stored.path))
        if metrics["step"] == self.lost_after:
            self.lost_after = 0
            raise LostError

    def get_checkpoint(self) -> Any:
        if not self.committed:
            return None

        @contextmanager
        def as_directory() -> Iterator[str]:
            yield str(self.committed[-1])

        return SimpleNamespace(as_directory=as_directory)

    def get_context(self) -> Any:
        storage = SimpleNamespace(
            build_checkpoint_path_from_name=lambda name: str(self.folder / "store" / name),
            storage_filesystem=fs.LocalFileSystem(),
        )
        return SimpleNamespace(get_storage=lambda: storage)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.txt").write_text(f"{number} times one is {number}. " * 20)
    return folder


@pytest.fixture
def settings(text: Path) -> dict[str, Any]:
    return {
        "size": "tiny", "text": str(text), "megabytes": 0, "steps": 9, "rows": 32, "context": 16, "lr": 1e-2,
        "warmup": 2, "dropout": 0.2, "seed": 7, "checkpoint_every": 2,
        "evaluate_every": 4, "compile": "off", "from": "", "lora_rank": 0,
        "lora_alpha": 8, "lora_targets": ["query", "value"],
    }  # fmt: skip


@pytest.fixture
def lab(llm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The recipe with a Ray Train that the test plays, and without its measuring of the machine."""
    from ray.train import Checkpoint

    ray_train = RayTrain(tmp_path)
    for name in ("report", "get_checkpoint", "get_context"):
        monkeypatch.setattr(llm.train.ray.train, name, getattr(ray_train, name))
    tiny = llm.model.ModelConfig(width=16, layers=1, inner=24, heads=2, kv_heads=1)
    monkeypatch.setitem(llm.model.SIZES, "tiny", tiny)
    monkeypatch.setattr(llm.checkpoint, "Checkpoint", Checkpoint)
    return ray_train


def train(llm: Any, settings: dict[str, Any]) -> Any:
    training = llm.train.Training(settings, 0, 1, CPU)
    training.run()
    return training


def fresh(lab: RayTrain) -> None:
    """Forget the run: another one begins."""
    lab.reports, lab.committed = [], []


@pytest.mark.parametrize("lora", [0, 2])
def test_a_run_that_is_lost_in_the_middle_of_an_epoch_ends_with_the_same_bits(
    llm: Any, lab: RayTrain, settings: dict[str, Any], lora: int
) -> None:
    if lora:
        train(llm, settings | {"steps": 2})
        settings |= {"from": str(lab.committed[-1]), "lora_rank": lora, "steps": 7}
        fresh(lab)
    undisturbed = train(llm, settings)
    assert undisturbed.order.steps_per_epoch > settings["steps"], "no longer in the middle of an epoch"
    reports = [{k: v for k, v in metrics.items() if "second" not in k} for metrics in lab.reports]
    fresh(lab)

    lab.lost_after = 4
    with pytest.raises(LostError):
        train(llm, settings)
    resumed = train(llm, settings)

    again = [{k: v for k, v in metrics.items() if "second" not in k} for metrics in lab.reports]
    assert again == reports, "a metric differs"
    ours, theirs = resumed.module.state_dict(), undisturbed.module.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert reports[-1]["weights_sha256"] == llm.train.weights_sha256(theirs)


def test_a_checkpoint_that_was_not_complete_is_not_resumed_from(
    llm: Any, lab: RayTrain, settings: dict[str, Any]
) -> None:
    train(llm, settings)
    last = lab.reports[-1]["weights_sha256"]
    fresh(lab)
    lab.lost_after = 2
    with pytest.raises(LostError):
        train(llm, settings)
    lab.lost_after, lab.commits = 4, False
    with pytest.raises(LostError):
        train(llm, settings)
    lab.commits = True
    train(llm, settings)
    assert [metrics["step"] for metrics in lab.reports] == [2, 4, 4, 6, 8, 9]
    assert lab.reports[-1]["weights_sha256"] == last


def test_an_epoch_ends_and_the_next_one_is_resumed_too(
    llm: Any, lab: RayTrain, settings: dict[str, Any]
) -> None:
    settings |= {"rows": 128, "steps": 7}
    assert train(llm, settings).order.steps_per_epoch == 3
    last = lab.reports[-1]
    assert last["passes"] == 7 / 3
    fresh(lab)
    lab.lost_after = 6
    with pytest.raises(LostError):
        train(llm, settings)
    train(llm, settings)
    assert lab.reports[-1]["weights_sha256"] == last["weights_sha256"]


def test_the_loss_falls_and_the_text_held_out_is_evaluated(
    llm: Any, lab: RayTrain, settings: dict[str, Any]
) -> None:
    train(llm, settings | {"steps": 60, "dropout": 0.0, "checkpoint_every": 20, "evaluate_every": 20})
    first, last = lab.reports[0], lab.reports[-1]
    assert last["loss"] < first["loss"] < math.log(256)
    assert last["val_loss"] < first["val_loss"]


def test_another_text_or_another_seed_does_not_go_on_with_a_run(
    llm: Any, lab: RayTrain, settings: dict[str, Any], text: Path
) -> None:
    lab.lost_after = 2
    with pytest.raises(LostError):
        train(llm, settings)
    with pytest.raises(ValueError, match="seed was 7, is 8"):
        train(llm, settings | {"seed": 8})
    (text / "0.txt").write_text("changed")
    with pytest.raises(ValueError, match="to another run: text was"):
        train(llm, settings)


def test_weights_that_are_not_finite_are_never_saved(
    llm: Any, lab: RayTrain, settings: dict[str, Any]
) -> None:
    training = llm.train.Training(settings, 0, 1, CPU)
    training.module.embedding.weight.data[:] = float("nan")
    with pytest.raises(FloatingPointError, match="step 2 is nan"):
        training.run()
    assert lab.reports == []


def test_fine_tuning_begins_with_the_weights_of_the_checkpoint_and_an_optimizer_of_its_own(
    llm: Any, lab: RayTrain, settings: dict[str, Any]
) -> None:
    pretrained = train(llm, settings)
    where = str(lab.committed[-1])
    fresh(lab)
    tuning = llm.train.Training(settings | {"from": where}, 0, 1, CPU)
    ours, theirs = tuning.module.state_dict(), pretrained.module.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert tuning.step == 0
    assert tuning.optimizer.state_dict()["state"] == {}
    assert tuning.trained == sum(p.numel() for p in tuning.module.parameters())


def test_a_copy_of_the_state_does_not_follow_the_training(llm: Any) -> None:
    copy, weight = llm.checkpoint.Copy(), torch.ones(3)
    state = {"groups": [{"betas": (0.9, weight)}], "step": 4}
    kept = copy.of(state)
    weight.zero_()
    assert kept["step"] == 4
    assert kept["groups"][0]["betas"][1].tolist() == [1, 1, 1]
    assert copy.of(state)["groups"][0]["betas"][1] is kept["groups"][0]["betas"][1], (
        "memory is not used again"
    )


def test_the_learning_rate_rises_then_falls_to_a_tenth(llm: Any) -> None:
    rates = [llm.train.learning_rate(step, 100, 1.0, 10) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[100] == pytest.approx(0.1)


def test_only_matrices_decay(llm: Any, lab: RayTrain, settings: dict[str, Any]) -> None:
    training = llm.train.Training(settings, 0, 1, CPU)
    matrices, others = training.optimizer.param_groups
    assert (matrices["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert all(p.dim() == 2 for p in matrices["params"])
    assert len(others["params"]) == 3


def test_the_settings_are_the_recipes(llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAYLAB_STORAGE", raising=False)
    args = llm.train.settings().parse_args(["--size", "5m", "--lora-rank", "8"])
    assert (args.size, args.lora_rank, args.steps, args.gpus, args.storage) == (
        "5m",
        8,
        600,
        None,
        "s3://ray",
    )


@pytest.mark.parametrize(
    ("asked", "gpu", "compiler", "headers", "compiled"),
    [
        ("on", False, "", False, True),
        ("off", True, "gcc", True, False),
        ("auto", False, "gcc", True, False),
        ("auto", True, "gcc", True, True),
        ("auto", True, "CC", True, True),
        ("auto", True, "", True, False),
        ("auto", True, "gcc", False, False),
    ],
)
def test_a_model_is_compiled_for_a_gpu_where_that_can_be_done(
    llm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    asked: str, gpu: bool, compiler: str, headers: bool, compiled: bool,
) -> None:  # fmt: skip
    if headers:
        (tmp_path / "Python.h").touch()
    monkeypatch.setattr(llm.train.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(llm.train.shutil, "which", lambda name: name if name == compiler else None)
    monkeypatch.delenv("CC", raising=False)
    if compiler == "CC":
        monkeypatch.setenv("CC", "my-cc")
    assert llm.train.compiles(asked, gpu) is compiled
    said = capsys.readouterr().out
    assert ("no C compiler with Python's headers" in said) is (asked == "auto" and gpu and not compiled)
