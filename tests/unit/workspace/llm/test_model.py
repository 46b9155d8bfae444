"""The recipe `llm`: its decoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture
def config(llm: Any) -> Any:
    return llm.model.ModelConfig(width=32, layers=2, inner=48, heads=4, kv_heads=2, context=24)


@pytest.fixture
def decoder(llm: Any, config: Any) -> Any:
    torch.manual_seed(3)
    return llm.model.Decoder(config).eval()


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(1, 256, (rows, length), generator=torch.Generator().manual_seed(5))


def test_the_sizes_go_from_a_tenth_of_a_million_to_76_million_parameters(llm: Any) -> None:
    with torch.device("meta"):
        models = {name: llm.model.Decoder(config) for name, config in llm.model.SIZES.items()}
    counts = {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()}
    assert counts == {
        "0.1m": 115_008, "0.8m": 820_352, "5m": 4_787_456,
        "10m": 9_540_480, "25m": 25_305_600, "76m": 75_713_280,
    }  # fmt: skip


def test_a_byte_changes_no_logits_before_its_own_place(decoder: Any) -> None:
    row = tokens(1, 12)
    other = row.clone()
    other[0, 7] = row[0, 7] % 255 + 1
    before, after = decoder(row), decoder(other)
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_the_order_of_what_came_before_matters(decoder: Any) -> None:
    row = tokens(1, 6)
    swapped = row[:, [1, 0, 2, 3, 4, 5]]
    assert not torch.allclose(decoder(row)[0, -1], decoder(swapped)[0, -1], atol=1e-6)


def test_heads_that_share_keys_compute_what_copies_of_those_keys_would(llm: Any, config: Any) -> None:
    shared = llm.model.Decoder(config).eval()
    full = llm.model.Decoder(replace(config, kv_heads=4)).eval()
    state = shared.state_dict()
    for name, weight in state.items():
        if name.endswith(("key.weight", "value.weight")):
            state[name] = weight.view(2, 8, 32).repeat_interleave(2, dim=0).reshape(32, 32)
    full.load_state_dict(state)
    row = tokens(2, 9)
    torch.testing.assert_close(shared(row), full(row))


def test_a_saved_model_computes_the_same_bits(llm: Any, decoder: Any, config: Any, tmp_path: Path) -> None:
    llm.model.save_model(config, decoder.state_dict(), tmp_path)
    loaded = llm.model.load_model(tmp_path)
    assert loaded.config == config
    assert torch.equal(loaded(tokens(1, 5)), decoder(tokens(1, 5)))
