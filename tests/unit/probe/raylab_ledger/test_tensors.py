"""Digests of tensors in memory are those of what lies in the files that they are saved in."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from raylab_ledger import tensors
from raylab_ledger.tensors import digest, halves, in_bytes, in_files, rounded, sizes_in_files


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(70, 90), torch.nn.BatchNorm1d(90), torch.nn.Linear(90, 3))


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


@pytest.mark.parametrize("save", [save_torch, save_safetensors])
def test_the_tensors_of_a_model_are_those_in_its_file(
    save: Callable[[torch.nn.Module, Path], None], tmp_path: Path
) -> None:
    save(model(), tmp_path)
    values = list(model().state_dict().values())
    assert set(map(digest, values)) == set(in_files(tmp_path) or ())
    assert sorted(sizes_in_files(tmp_path) or ()) == sorted(value.nbytes for value in values)


def test_a_file_in_memory_is_read_as_one_on_disk(tmp_path: Path) -> None:
    save_torch(model(), tmp_path)
    assert in_bytes((tmp_path / "state.pt").read_bytes()) == in_files(tmp_path)


def test_files_of_other_kinds_hold_no_tensors(tmp_path: Path) -> None:
    (tmp_path / "empty.pt").touch()
    (tmp_path / "broken.safetensors").write_bytes(b"\xff" * 20)
    (tmp_path / "metrics.json").write_text("{}")
    assert in_files(tmp_path) == []


def test_more_tensors_than_a_ledger_should_hold_are_not_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tensors, "MOST_TENSORS", 3)
    save_torch(model(), tmp_path)
    assert in_files(tmp_path) is None


def on_device(tensor: torch.Tensor) -> str:
    """The digest as on a GPU, by PyTorch's own operations."""
    return tensors._on_device(torch, tensor.reshape(-1).view(torch.uint8))


@pytest.mark.parametrize("way", [digest, on_device])
@pytest.mark.parametrize("place", [0, 1, 4999, 9999])
def test_every_word_counts_and_so_does_its_place(way: Callable[[torch.Tensor], str], place: int) -> None:
    values = torch.arange(10_000.0)
    other, swapped = values.clone(), values.clone()
    other[place] += 0.5
    swapped[[place, 5000]] = swapped[[5000, place]]
    assert len({way(values), way(other), way(swapped)}) == 3
    assert way(values) == way(values.clone())


def test_two_signs_that_change_together_do_not_cancel_out() -> None:
    values = torch.ones(64, dtype=torch.float64)
    flipped = values.clone()
    flipped[[3, 40]] *= -1
    assert on_device(values) != on_device(flipped)


def test_a_tensor_is_mixed_in_parts_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.arange(1003.0)
    whole = on_device(values)
    monkeypatch.setattr(tensors, "CHUNK_WORDS", 100)
    assert on_device(values) == whole


def test_a_tensor_that_begins_amid_a_word_is_as_any_other() -> None:
    values = torch.arange(1000.0)
    assert on_device(values[1:]) == on_device(values[1:].clone())


def test_without_the_fast_hash_the_digests_are_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.arange(10.0)
    fast = digest(values)
    monkeypatch.setattr(tensors, "LETTER", "b")
    assert (fast[0], digest(values)[0], on_device(values)[0]) == ("x", "b", "g")
    assert all(way.endswith(":40") for way in (fast, digest(values), on_device(values)))


@pytest.mark.parametrize("values", [torch.tensor(3), torch.ones(()), torch.ones(0), torch.ones(2, 3).t()])
def test_tensors_of_any_shape_have_a_digest(values: torch.Tensor) -> None:
    assert digest(values) == digest(values.clone())


def test_half_precision_is_known_by_the_values_that_it_leaves() -> None:
    values = torch.rand(1000)
    kept = values.to(torch.bfloat16)
    assert rounded(values) == [digest(kept)]
    assert digest(kept) in halves(kept.float())
    assert halves(values.half().float()) == [digest(values.half())]
    assert halves(values) == rounded(kept) == []


def test_of_a_tensor_that_is_sharded_the_part_of_this_rank_counts() -> None:
    part = torch.nn.Parameter(torch.ones(3))
    part._local_tensor = torch.zeros(2)  # as a DTensor has it
    assert digest(part) == digest(torch.zeros(2))
