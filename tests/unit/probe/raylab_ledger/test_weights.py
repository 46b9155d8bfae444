"""Fingerprints of what a training begins with are those of what lies in the files that it has read."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.distributed import checkpoint

from raylab_ledger import weights
from raylab_ledger.weights import Weights, in_files, not_comparable, of_parameters


def model(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(70, 90), torch.nn.BatchNorm1d(90), torch.nn.Linear(90, 3))


def begun_with(net: torch.nn.Module, **options: Any) -> list[dict[str, Any]]:
    """The `weights` that are recorded while this model takes two steps."""
    recorded: list[dict[str, Any]] = []
    watched = Weights(lambda event, **fields: recorded.append({"event": event, **fields}))
    adam = torch.optim.Adam(net.parameters(), **options)
    for _ in range(2):
        adam.zero_grad()
        net(torch.ones(4, 70)).sum().backward()
        step(watched, adam)
    return recorded


def step(watched: Weights, optimizer: torch.optim.Optimizer, closure: Any = None) -> None:
    """As PyTorch's hooks, which are global."""
    watched.before_step(optimizer, (), {})
    optimizer.step(closure)
    watched.after_step(optimizer, (), {})


def fingerprints(*values: torch.Tensor) -> list[str]:
    return [tensor for _, tensor in of_parameters(values)]


def save_torch(net: torch.nn.Module, path: Path) -> None:
    torch.save({"model": net.state_dict(), "step": 3}, path / "state.pt")


def save_safetensors(net: torch.nn.Module, path: Path) -> None:
    """As the format says: the header's length in 8 bytes, the header, the tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in net.state_dict().items():
        part = tensor.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def save_distributed(net: torch.nn.Module, path: Path) -> None:
    checkpoint.save({"model": net.state_dict(), "step": 3}, checkpoint_id=path, no_dist=True)


SAVE = [save_torch, save_safetensors, save_distributed]


@pytest.mark.parametrize("save", SAVE)
def test_a_training_that_loaded_its_weights_begins_with_those_in_the_file(
    save: Callable[[torch.nn.Module, Path], None], tmp_path: Path
) -> None:
    save(model(1), tmp_path)
    (begun,) = begun_with(model(1))
    assert begun["event"] == "weights"
    assert set(begun["tensors"]) <= set(in_files(tmp_path) or ())


@pytest.mark.parametrize("save", SAVE)
def test_one_that_forgot_them_does_not(save: Callable[[torch.nn.Module, Path], None], tmp_path: Path) -> None:
    save(model(1), tmp_path)
    (begun,) = begun_with(model(2))
    fresh = set(begun["tensors"]) - set(in_files(tmp_path) or ())
    assert len(fresh) == 4  # weights and biases of both layers; those of the norm begin as ones and zeros


def test_a_step_that_changes_nothing_is_not_the_first_one() -> None:
    assert begun_with(model(1), lr=0.0) == []


def stepped(*optimizers: torch.optim.Optimizer, reports_before: int | None = None) -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = []
    watched = Weights(lambda event, **fields: recorded.append(fields))
    for number, optimizer in enumerate(optimizers):
        if number == reports_before:
            watched.stop()
        step(watched, optimizer)
    return recorded


def parameter(value: float, *, trained: bool = True) -> torch.nn.Parameter:
    one = torch.nn.Parameter(torch.full((3,), value))
    one.grad = torch.ones(3) if trained else None
    return one


def test_parameters_that_a_step_leaves_alone_do_not_count() -> None:
    both = [parameter(1.0), parameter(2.0, trained=False)]
    (begun,) = stepped(torch.optim.SGD(both, lr=0.1))
    assert begun == {"tensors": fingerprints(parameter(1.0))}


def test_gradients_may_come_in_the_step_itself() -> None:
    net, recorded = model(1), list[Any]()
    adam = torch.optim.Adam(net.parameters())

    def closure() -> torch.Tensor:
        loss: torch.Tensor = net(torch.ones(4, 70)).sum()
        loss.backward()
        return loss

    step(Weights(lambda event, **fields: recorded.append(fields)), adam, closure)
    assert recorded == [{"tensors": begun_with(model(1))[0]["tensors"]}]


def test_parameters_of_a_second_optimizer_are_recorded_before_anybody_has_changed_them() -> None:
    one, two = parameter(1.0), parameter(2.0)
    first, second = (torch.optim.SGD(given, lr=0.1) for given in ([one], [one, two]))
    expected = [{"tensors": fingerprints(parameter(value))} for value in (1.0, 2.0)]
    assert stepped(first, second) == expected


def test_an_optimizer_that_begins_after_the_first_report_tells_nothing() -> None:
    assert len(stepped(*(torch.optim.SGD([parameter(v)], lr=0.1) for v in (1.0, 2.0)), reports_before=1)) == 1


def test_one_changed_word_among_the_sampled_ones_is_another_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights, "SAMPLES", 4)
    values = torch.arange(34, dtype=torch.float32)  # 17 words, of which every fifth is looked at
    before = fingerprints(values)
    values[1] = -1.0
    assert fingerprints(values) != before
    before = fingerprints(values)
    values[2] = -1.0
    assert fingerprints(values) == before


def test_the_bytes_after_the_last_word_count() -> None:
    assert fingerprints(torch.tensor([1.0, 2.0, 3.0])) != fingerprints(torch.tensor([1.0, 2.0, 4.0]))


def test_parameters_that_share_their_memory_are_one() -> None:
    both = torch.arange(10.0)
    assert len(set(fingerprints(both[:5], both[5:]))) == 1


def test_sharded_parameters_are_not_compared() -> None:
    part = torch.nn.Parameter(torch.ones(3))
    part.placements = ()  # as a DTensor has them
    assert not_comparable([part]) == "its parameters are sharded over the ranks"


def test_more_tensors_than_a_ledger_should_hold_are_not_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(weights, "MOST_TENSORS", 3)
    save_torch(model(1), tmp_path)
    assert in_files(tmp_path) is None
    assert "more than 3" in begun_with(model(1))[0]["why"]


def test_files_of_other_kinds_hold_no_tensors(tmp_path: Path) -> None:
    (tmp_path / "empty.pt").touch()
    (tmp_path / "broken.safetensors").write_bytes(b"\xff" * 20)
    (tmp_path / "metrics.json").write_text("{}")
    assert in_files(tmp_path) == []


class Booster:
    """As XGBoost's, with so many trees."""

    def __init__(self, trees: int) -> None:
        self.trees = trees

    def get_dump(self, dump_format: str) -> list[str]:
        return [f"tree {n}" for n in range(self.trees)]


Begun = tuple[Callable[[Booster], Any], list[Any]]


@pytest.fixture
def begun() -> Begun:
    """A function that begins a training of XGBoost's, and the trees that were recorded before it."""

    class Container:
        def before_training(self, model: Any) -> Any:
            return model

    recorded: list[Any] = []
    module: Any = type("module", (), {"CallbackContainer": Container})
    Weights(lambda event, **fields: recorded.append(fields["tensors"]))._watch_xgboost(module)
    return lambda booster: Container().before_training(booster), recorded


def test_boosted_trees_are_known_before_the_training_begins(begun: Begun) -> None:
    begin, recorded = begun
    booster = Booster(3)
    assert begin(booster) is booster
    begin(Booster(4))  # the same script, a round later
    assert recorded == [weights.of_booster(booster)]
    assert weights.of_booster(Booster(0)) == []


def test_a_model_that_begins_without_trees_does_not_hide_the_one_that_goes_on(begun: Begun) -> None:
    begin, recorded = begun
    for trees in (0, 3, 4):
        begin(Booster(trees))
    assert recorded == [[], weights.of_booster(Booster(3))]


class Saved(Booster):
    """A model that was saved as the number of its trees."""

    def __init__(self, model_file: bytearray) -> None:
        super().__init__(int(model_file.decode()))


def test_a_model_that_was_opened_before_xgboost_was_imported_is_read_when_it_trains(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Container:
        def before_training(self, model: Any) -> Any:
            return model

    monkeypatch.delitem(sys.modules, "xgboost", raising=False)
    watched, read = Weights(lambda event, **fields: None), list[Any]()
    model = tmp_path / "model.json"
    for trees, name in ((3, "model.json"), (0, "none.json")):
        (tmp_path / name).write_text(str(trees))
    watched.read_later(tmp_path, read.append)
    model.unlink()
    watched._watch_xgboost(cast(Any, SimpleNamespace(CallbackContainer=Container)))
    monkeypatch.setitem(sys.modules, "xgboost", cast(Any, SimpleNamespace(Booster=Saved)))
    for _ in range(2):
        Container().before_training(Booster(3))
    assert read == [weights.of_booster(Booster(3))]


def test_nothing_is_read_later_that_could_be_read_at_once_or_that_holds_no_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    watched, read = Weights(lambda event, **fields: None), list[Any]()
    monkeypatch.delitem(sys.modules, "xgboost", raising=False)
    (tmp_path / "epoch.txt").write_text("3")
    watched.read_later(tmp_path, read.append)
    (tmp_path / "model.json").write_text("3")
    watched.read_later(tmp_path, read.append)
    watched.stop()
    monkeypatch.setitem(sys.modules, "xgboost", cast(Any, SimpleNamespace(Booster=Saved)))
    watched.read_later(tmp_path, read.append)
    watched.read_unread()
    assert read == []


def test_a_file_of_torch_whose_name_could_be_of_a_model_of_xgboosts_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", cast(Any, SimpleNamespace(Booster=Saved)))
    save_torch(model(1), tmp_path)
    held = in_files(tmp_path)
    (tmp_path / "state.pt").rename(tmp_path / "pytorch_model.bin")
    assert in_files(tmp_path) == held != []


class LightGbm:
    """A module with a Booster as LightGBM's: `update` adds a tree to those that it was made with."""

    class Booster:
        def __init__(self, trees: int = 0) -> None:
            self.trees = trees

        def model_to_string(self) -> str:
            trees = "".join(f"Tree={n}\nleaf_value={n}.5 2\n\n" for n in range(self.trees))
            return f"tree\nversion=v4\ntree_sizes={self.trees}\n\n{trees}end of trees\n\nparameters:\n"

        def update(self) -> bool:
            self.trees += 1
            return False


def test_trees_of_lightgbm_are_those_in_the_file_that_they_were_saved_in(tmp_path: Path) -> None:
    module: Any = type("module", (), {"Booster": type("Booster", (LightGbm.Booster,), {})})
    recorded: list[Any] = []
    Weights(lambda event, **fields: recorded.append(fields["tensors"]))._watch_lightgbm(module)
    saved, helper = module.Booster(3), module.Booster()
    (tmp_path / "model.txt").write_text(
        saved.model_to_string().replace("parameters:", "feature_importances:")
    )
    for model in (helper, helper, saved, saved):
        model.update()
    assert recorded == [[], in_files(tmp_path)]
    assert in_files(tmp_path) != []
