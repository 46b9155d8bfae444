"""The recipe `llm` with torchft, which the test plays: what counts as a step, and who reports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

CPU = torch.device("cpu")


class Manager:
    """torchft's manager of one worker: loses a neighbour in the steps `lost`, and is told who reports."""

    made: Manager

    def __init__(self, state_dict: Callable[[], Any], load_state_dict: Callable[[Any], None], **_: Any):
        Manager.made = self
        self.give, self.take = state_dict, load_state_dict
        self.step, self.tried, self.participant, self.left = 0, 0, 0, False
        self.lost: tuple[int, ...] = ()

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.step = state["step"]

    def current_step(self) -> int:
        return self.step

    def participating_rank(self) -> int:
        return self.participant

    def should_commit(self) -> bool:
        self.tried += 1
        if self.tried in self.lost:
            return False
        self.step += 1
        return True

    def shutdown(self) -> None:
        self.left = True


class Optimizer:
    def __init__(self, manager: Manager, optimizer: torch.optim.Optimizer) -> None:
        self.manager, self.optimizer = manager, optimizer
        self.param_groups, self.zero_grad = optimizer.param_groups, optimizer.zero_grad

    def state_dict(self) -> Any:
        return self.optimizer.state_dict()

    def step(self) -> None:
        if self.manager.should_commit():
            self.optimizer.step()


@pytest.fixture
def worker(llm: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """A worker of a run of six steps, and what it reports."""
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(f"{number} and one are more than {number}. " * 60)
    torchft = SimpleNamespace(
        Manager=Manager,
        Optimizer=Optimizer,
        DistributedDataParallel=lambda manager, module: module,
        ProcessGroupGloo=lambda timeout: None,
    )
    monkeypatch.setitem(sys.modules, "torchft", torchft)
    monkeypatch.setattr(llm.train.ray.train, "get_checkpoint", lambda: None)
    tiny = llm.model.ModelConfig(width=16, layers=1, inner=24, heads=2, kv_heads=1)
    monkeypatch.setitem(llm.model.SIZES, "tiny", tiny)
    config = {
        "size": "tiny", "text": str(tmp_path), "megabytes": 0, "steps": 6, "rows": 8, "batch_size": 4,
        "context": 16, "lr": 1e-2, "warmup": 2, "dropout": 0.0, "seed": 7,
        "checkpoint_every": 2, "evaluate_every": 6, "compile": "off", "from": "", "lora_rank": 0,
    }  # fmt: skip
    made = llm.survivors.Survivor(config, 1, CPU)
    reported: list[dict[str, Any]] = []
    monkeypatch.setattr(made.saver, "save", lambda metrics, *_, **__: reported.append(metrics))
    return SimpleNamespace(training=made, manager=Manager.made, reported=reported)


def steps(worker: Any) -> list[int]:
    return [metrics["step"] for metrics in worker.reported]


def test_it_trains_to_the_end_reports_each_place_once_and_leaves(worker: Any) -> None:
    worker.manager.lost = (3, 5)
    worker.training.run()
    assert steps(worker) == [2, 4, 6]
    assert (worker.manager.tried, worker.manager.step) == (8, 6), "two steps were taken again"
    assert worker.manager.left


def test_another_worker_reports_while_it_is_not_the_first(worker: Any) -> None:
    worker.manager.participant = 1
    worker.training.run()
    assert steps(worker) == []
    assert worker.manager.left


def test_it_is_given_the_state_of_a_neighbour(worker: Any) -> None:
    worker.training.train_step()
    given = worker.manager.give()
    copied = {name: tensor.clone() for name, tensor in given["model"].items()}
    worker.training.train_step()
    worker.manager.take({**given, "model": copied})
    now = worker.training.module.state_dict()
    assert all(torch.equal(now[name], tensor) for name, tensor in copied.items())


def test_what_is_held_out_is_evaluated_whole_whoever_is_there(worker: Any) -> None:
    asked: list[int] = []

    def loss(text: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        asked.append(len(starts))
        return torch.tensor(1.0)

    worker.training.loss = loss
    assert worker.training.evaluate() == 1.0
    assert asked == [32]
    assert (worker.training.rank, worker.training.ranks) == (1, 2)
