"""The recipe `llm`: its decoder for inference, with a cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch

WIDTH, KV_HEADS, CONTEXT = 48, 2, 640


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def decoder(llm: Any, request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(3)
    config = llm.model.ModelConfig(
        width=WIDTH, layers=2, inner=64, heads=6, kv_heads=KV_HEADS, context=CONTEXT, tied=request.param
    )
    made = llm.model.Decoder(config).eval()
    with torch.no_grad():
        for weight in made.parameters():  # norms that do something, and logits that differ
            weight.mul_(4) if weight.dim() == 2 else weight.uniform_(0.5, 2)
    return made


@pytest.fixture
def fast(llm: Any, decoder: Any) -> Any:
    return llm.inference.Inference(decoder)


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(1, 256, (rows, length), generator=torch.Generator().manual_seed(5))


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("first", [1, 9, 64, 70])
def test_with_a_cache_the_logits_are_those_of_the_whole_row(decoder: Any, fast: Any, first: int) -> None:
    row = tokens(2, 140)
    cache = fast.new_cache(rows=2)
    parts = [fast(row[:, :first], torch.arange(first).expand(2, -1), cache)]
    parts += [fast(row[:, i : i + 1], torch.full((2, 1), i), cache.until(i + 1)) for i in range(first, 140)]
    close(torch.cat(parts, 1), decoder(row))


def test_slots_hold_rows_of_different_length_and_an_old_row_leaves_no_trace(decoder: Any, fast: Any) -> None:
    old, new, other = tokens(1, 80), tokens(1, 16)[:, 10:], tokens(1, 71)
    cache = fast.new_cache(rows=2, places=80)
    fast(old, torch.arange(80)[None], cache.rows(0, 1))
    fast(other[:, :-1], torch.arange(70)[None], cache.rows(1, 2))
    fast(new[:, :-1], torch.arange(5)[None], cache.rows(0, 1))  # the slot's next row, shorter

    last = torch.cat([new[:, -1:], other[:, -1:]])
    logits = fast(last, torch.tensor([[5], [70]]), cache)

    close(logits[0], decoder(new)[0, -1:])
    close(logits[1], decoder(other)[0, -1:])


def test_a_row_padded_at_its_end_goes_on_as_if_it_were_not(decoder: Any, fast: Any) -> None:
    row = tokens(1, 8)
    padded = torch.cat([row[:, :5], torch.zeros(1, 3, dtype=torch.long)], 1)
    cache = fast.new_cache(rows=1)
    fast(padded, torch.arange(8)[None], cache)
    logits = [fast(row[:, i : i + 1], torch.tensor([[i]]), cache)[0, 0] for i in range(5, 8)]
    close(torch.stack(logits), decoder(row)[0, 5:])


def test_blocks_behind_a_row_and_rows_beside_it_change_no_bit_of_its_logits(fast: Any) -> None:
    row, slots = tokens(1, 40), 5
    cache = fast.new_cache(rows=slots)
    fast(row[:, :39], torch.arange(39)[None], cache.rows(2, 3).until(39))
    last, places = torch.full((slots, 1), 7), torch.zeros(slots, 1, dtype=torch.long)
    last[2], places[2] = row[0, 39], 39
    expected = fast(last, places, cache.until(40))[2]
    for reach in range(64, CONTEXT + 1, 64):
        for number in set(range(slots)) - {2}:
            length = min(reach, 60 + 131 * number)
            fast(tokens(1, length), torch.arange(length)[None], cache.rows(number, number + 1))
            last[number], places[number] = number, length - 1
        assert torch.equal(fast(last, places, cache.until(reach))[2], expected), reach


def test_without_the_packing_of_a_pc_the_logits_are_the_same_but_for_rounding(
    llm: Any, decoder: Any, fast: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm.inference.platform, "machine", lambda: "arm64")
    plain = llm.inference.Inference(decoder)
    row, places = tokens(1, 70), torch.arange(70)[None]
    close(plain(row, places, plain.new_cache(1)), fast(row, places, fast.new_cache(1)))


def test_in_bf16_the_logits_are_near_those_of_float32(llm: Any, decoder: Any, fast: Any) -> None:
    """As on a GPU: positions up to the context are turned exactly, though bf16 cannot count that far."""
    import copy

    half = llm.inference.Inference(copy.deepcopy(decoder).bfloat16())
    row, places = tokens(1, 600), torch.arange(600)[None]
    actual, expected = half(row, places, half.new_cache(1)), fast(row, places, fast.new_cache(1))
    assert actual.dtype == torch.bfloat16
    assert (actual.float() - expected).abs().mean() < 0.03 * expected.std()


def test_a_place_outside_of_the_context_or_the_cache_is_refused(fast: Any) -> None:
    with pytest.raises(IndexError):
        fast(tokens(1, 1), torch.tensor([[CONTEXT]]), fast.new_cache(rows=1, places=CONTEXT + 1))
    with pytest.raises(IndexError):
        fast(tokens(1, 1), torch.tensor([[64]]), fast.new_cache(rows=1, places=64))
