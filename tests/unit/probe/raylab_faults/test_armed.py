"""What a rank is told to do to itself at an epoch."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lab.evidence.ledger.history import PROGRESS_KEYS
from raylab_faults import armed, rank
from raylab_faults.armed import Armed

PID = os.getpid()


class Rank:
    """A rank that trains: what it records, and the reports that came through."""

    def __init__(self, folder: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self.reported: list[int] = []
        self.spoilt = 0
        self.problem = ""
        self.armed = Armed(self.record, lambda: None, self.spoil, folder)

    def record(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, **fields})

    def spoil(self) -> str:
        if self.problem:
            raise LookupError(self.problem)
        self.spoilt += 1
        return "net.0.weight"

    def train(self, *epochs: int) -> None:
        for epoch in epochs:
            self.armed.before_report({"epoch": epoch})
            self.reported.append(epoch)
            self.armed.after_report({"epoch": epoch})


def test_a_rank_that_was_told_nothing_does_nothing(tmp_path: Path) -> None:
    subject = Rank(tmp_path)
    subject.train(1, 2, 3)
    assert (subject.reported, subject.events, subject.spoilt) == ([1, 2, 3], [], 0)


def test_an_exception_comes_instead_of_the_report_of_its_epoch(tmp_path: Path) -> None:
    subject = Rank(tmp_path)
    subject.train(1)
    armed.arm(PID, "exception", 3, tmp_path)

    with pytest.raises(RuntimeError, match="on purpose, at epoch 3"):
        subject.train(2, 3, 4)

    assert subject.reported == [1, 2]
    assert subject.events == [
        {"event": "fault_armed", "kind": "exception", "epoch": 3.0},
        {"event": "fault_fired", "kind": "exception", "epoch": 3},
    ]
    assert not list(tmp_path.iterdir())


def test_an_epoch_that_has_passed_meanwhile_counts_as_reached(tmp_path: Path) -> None:
    subject = Rank(tmp_path)
    subject.train(1, 2, 3)
    armed.arm(PID, "exception", 2, tmp_path)
    with pytest.raises(RuntimeError, match="at epoch 4"):
        subject.train(4)


def test_nan_comes_after_the_report_of_the_epoch_before_and_only_once(tmp_path: Path) -> None:
    subject = Rank(tmp_path)
    armed.arm(PID, "nan", 3, tmp_path)
    spoilt = []
    for epoch in (1, 2, 3, 4):
        subject.train(epoch)
        spoilt.append(subject.spoilt)
    assert spoilt == [0, 1, 1, 1]
    fired = {"event": "fault_fired", "kind": "nan", "epoch": 3, "parameter": "net.0.weight"}
    assert subject.events[1:] == [fired]


def test_a_rank_without_a_model_says_that_nothing_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = Rank(tmp_path)
    subject.problem = "this process does not use torch"
    armed.arm(PID, "nan", 2, tmp_path)
    subject.train(1)
    assert subject.events[-1]["problem"] == "this process does not use torch"
    assert "NaN on purpose is not possible" in capsys.readouterr().out


def test_what_was_taken_back_does_not_happen(tmp_path: Path) -> None:
    subject = Rank(tmp_path)
    armed.arm(PID, "exception", 3, tmp_path)
    subject.train(1, 2)
    armed.clear(PID, tmp_path)
    subject.train(3, 4)
    assert subject.reported == [1, 2, 3, 4]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "nan"}', '{"kind": "nan", "epoch": "x"}'])
def test_a_file_that_makes_no_sense_is_left_alone(tmp_path: Path, text: str) -> None:
    armed.file_of(PID, tmp_path).write_text(text)
    subject = Rank(tmp_path)
    subject.train(1, 2)
    assert subject.reported == [1, 2]


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    armed.arm(PID, "exception", 1, tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    subject = Rank(tmp_path)
    subject.train(1)
    assert subject.reported == [1]


def test_a_later_process_with_the_same_id_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    armed.arm(PID, "exception", 1, tmp_path)
    monkeypatch.setattr(rank, "start_time", lambda pid: "later")
    subject = Rank(tmp_path)
    subject.train(1)
    armed.clear(PID, tmp_path)
    assert subject.reported == [1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "metrics", [None, {}, {"loss": 1.0}, {"epoch": "3"}, {"epoch": True}, {"epoch": float("nan")}]
)
def test_metrics_without_an_epoch_fire_nothing(tmp_path: Path, metrics: Any) -> None:
    armed.arm(PID, "exception", 1, tmp_path)
    subject = Rank(tmp_path)
    subject.armed.before_report(metrics)
    subject.armed.after_report(metrics)
    assert [event["event"] for event in subject.events] == ["fault_armed"]


def test_progress_is_counted_as_the_ledgers_readers_count_it() -> None:
    assert armed.PROGRESS_KEYS == PROGRESS_KEYS
    assert armed.progress_of({"step": 40, "epoch": 2}) == 2


def test_the_command_tells_only_a_rank_of_this_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert armed.main(["set", str(PID), "nan", "5"], tmp_path) == rank.NOT_A_RANK
    assert not list(tmp_path.iterdir())

    monkeypatch.setattr(rank, "problem", lambda pid: "")
    assert armed.main(["set", str(PID), "nan", "5"], tmp_path) == 0
    assert json.loads(armed.file_of(PID, tmp_path).read_text()) == {"kind": "nan", "epoch": 5.0}

    assert armed.main(["clear", str(PID)], tmp_path) == 0
    assert armed.main(["clear", str(PID)], tmp_path) == 0
    assert not list(tmp_path.iterdir())
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"pid": PID, "done": True, "problem": ""}


@pytest.mark.parametrize(
    "argv", [[], ["set", "1"], ["set", "1", "boom", "3"], ["set", "x", "nan", "3"], ["clear"]]
)
def test_a_wrong_command_line_does_nothing(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert armed.main(argv) == 2
    assert "raylab_faults.armed set PID" in capsys.readouterr().out


class Parameter:
    """What is used of torch's."""

    def __init__(self, size: int, floating: bool = True, requires_grad: bool = True) -> None:
        self.values, self.floating, self.requires_grad = [1.0] * size, floating, requires_grad

    def numel(self) -> int:
        return len(self.values)

    def is_floating_point(self) -> bool:
        return self.floating

    def fill_(self, value: float) -> None:
        self.values = [value] * len(self.values)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A torch that is imported, with its class of modules."""
    import contextlib

    class Module:
        def __init__(self, **parameters: Parameter) -> None:
            self.held = parameters

        def parameters(self) -> list[Parameter]:
            return list(self.held.values())

        def named_parameters(self) -> list[tuple[str, Parameter]]:
            return list(self.held.items())

    module: Any = ModuleType("torch")
    module.nn = ModuleType("torch.nn")
    module.nn.Module, module.no_grad = Module, contextlib.nullcontext
    monkeypatch.setitem(sys.modules, "torch", module)
    for name in ("pytorch_lightning", "lightning.pytorch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return module


def test_nan_goes_into_the_biggest_model_that_trains(torch: Any) -> None:
    small = torch.nn.Module(w=Parameter(3))
    frozen = torch.nn.Module(w=Parameter(99, requires_grad=False))
    big = torch.nn.Module(indices=Parameter(50, floating=False), w=Parameter(4), b=Parameter(1))

    assert armed.spoil_a_model() == "w"

    assert all(value != value for value in big.held["w"].values)
    assert big.held["b"].values == small.held["w"].values[:1] == [1.0]
    assert frozen.held["w"].values == [1.0] * 99


def test_a_lightning_module_comes_before_a_bigger_model_beside_it(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lightning: Any = ModuleType("pytorch_lightning")
    lightning.LightningModule = type("LightningModule", (torch.nn.Module,), {})
    monkeypatch.setitem(sys.modules, "pytorch_lightning", lightning)
    teacher = torch.nn.Module(w=Parameter(99))
    trained = lightning.LightningModule(w=Parameter(2))
    armed.spoil_a_model()
    assert all(value != value for value in trained.held["w"].values)
    assert teacher.held["w"].values == [1.0] * 99


def test_without_torch_or_without_a_model_nothing_is_spoilt(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LookupError, match="no torch module with parameters"):
        armed.spoil_a_model()
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(LookupError, match="does not use torch"):
        armed.spoil_a_model()
