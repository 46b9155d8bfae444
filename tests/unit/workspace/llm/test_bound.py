"""The recipe `llm`: the bounds with which its engine is compared."""

from __future__ import annotations

from typing import Any

import pytest
import torch


@pytest.fixture
def decoder(llm: Any) -> Any:
    return llm.model.Decoder(llm.model.ModelConfig(width=32, layers=2, inner=48, heads=4, kv_heads=2))


def test_a_step_reads_every_weight_and_whole_blocks_of_every_slot(llm: Any, decoder: Any) -> None:
    weights = sum(p.numel() for p in decoder.parameters())
    numbers = 2 * 2 * 2 * 8  # keys and values, layers, heads, numbers of a head
    assert llm.bound.bytes_of_step(decoder, 3, 70) == 4 * (weights + 3 * numbers * 128)
    assert llm.bound.bytes_of_step(decoder.bfloat16(), 3, 64) == 2 * (weights + 3 * numbers * 64)


def test_a_step_multiplies_every_matrix_and_attention_with_every_slot(llm: Any, decoder: Any) -> None:
    matrices = sum(p.numel() for p in decoder.parameters() if p.dim() == 2)
    attention = 2 * (2 * 32 * 64) * 2
    assert llm.bound.operations_of_step(decoder, 5, 10) == 5 * (2 * matrices + attention)


def test_the_fastest_run_of_each_action_counts_and_they_take_turns(llm: Any) -> None:
    times = iter([0, 5, 5, 8, 8, 10, 10, 11, 20, 24, 30, 31, 40, 47, 50, 59])
    order: list[str] = []
    actions = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    assert llm.bound.fastest(actions, 2, turn=2, clock=lambda: next(times)) == {"a": 1, "b": 1}
    assert order == list("aabbaabb")


@pytest.mark.parametrize(("memory", "arithmetic", "lower"), [(200, 400, "memory"), (400, 200, "arithmetic")])
def test_the_lower_bound_is_named_and_the_share_of_both(
    llm: Any, memory: float, arithmetic: float, lower: str
) -> None:
    said = str(llm.bound.Bounds(1e9, 1e9, memory, arithmetic, reached=100))
    assert f"the lower one is that by {lower}" in said
    assert f"50 % of the bound of 200 by {lower}" in said or f"50 % of that of 200 by {lower}" in said


def test_an_engine_is_measured_while_all_its_slots_are_busy(
    llm: Any, decoder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm.bound, "COPIED", 1000)
    monkeypatch.setattr(llm.bound, "SIDE", 16)
    running: list[int] = []
    step = llm.engine.Engine.step

    def watched(engine: Any) -> Any:
        running.append(engine.running)
        return step(engine)

    monkeypatch.setattr(llm.engine.Engine, "step", watched)
    with torch.inference_mode():
        comparison = llm.bound.compare(decoder, slots=2, prompt=8, rounds=1)
    assert running[:2] == [0, 1]
    assert set(running[2:]) == {2}
    assert 0 < comparison.reached < float("inf")
