"""The recipe `llm`: its engine for inference."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

NewEngine = Callable[[int], Any]
"""Slots -> an engine."""


def small(llm: Any) -> Any:
    """A decoder in float32."""
    torch.set_num_threads(1)
    torch.manual_seed(3)
    config = llm.model.ModelConfig(width=64, layers=2, inner=48, heads=4, kv_heads=2, context=160)
    made = llm.model.Decoder(config).eval()
    with torch.no_grad():
        for weight in made.parameters():  # logits that differ enough for a drawn byte to depend on them
            weight.mul_(4 if weight.dim() == 2 else 1)
    return made


@pytest.fixture(params=["bfloat16", "float32"])
def new_engine(llm: Any, request: pytest.FixtureRequest) -> NewEngine:
    """Engines of a small decoder, in each type."""
    return lambda slots: llm.engine.Engine(small(llm).to(getattr(torch, request.param)), slots)


def prompt(seed: int, length: int) -> tuple[int, ...]:
    return tuple(random.Random(seed).choices(range(1, 256), k=length))


def request(llm: Any, number: int, length: int = 20, count: int = 12, **more: Any) -> Any:
    more = {"ignore_eos": True, **more}
    return llm.engine.Request(f"r{number}", prompt(number, length), count, **more)


def different(llm: Any, **more: Any) -> list[Any]:
    """Seven requests of different lengths, one of which passes a block's end."""
    sizes = [(3, 9), (70, 20), (1, 5), (40, 30), (62, 12), (9, 1), (25, 18)]
    return [request(llm, i, length, count, **more) for i, (length, count) in enumerate(sizes)]


def alone(new_engine: NewEngine, requests: Sequence[Any], slots: int = 3) -> dict[str, list[int]]:
    engine = new_engine(slots)
    return {r.id: engine.run([r])[r.id] for r in requests}


def greedy(decoder: Any, request: Any) -> list[int]:
    """The answer without a cache: the whole row at once for each byte."""
    row = list(request.prompt)
    for _ in range(request.max_tokens):
        with torch.no_grad():
            row.append(int(decoder(torch.tensor([row]))[0, -1].argmax()))
    return row[len(request.prompt) :]


def test_an_answer_is_that_of_the_model_without_cache_and_slots(llm: Any) -> None:
    requests, decoder = different(llm), small(llm)
    answers = llm.engine.Engine(decoder, slots=3).run(requests)
    assert answers == {r.id: greedy(decoder, r) for r in requests}


@pytest.mark.parametrize("more", [{}, {"temperature": 0.9, "seed": 4}, {"temperature": 2.0, "top_k": 5}])
def test_answers_of_a_batch_are_those_of_requests_one_by_one(
    llm: Any, new_engine: NewEngine, more: Any
) -> None:
    requests = different(llm, **more)
    assert new_engine(3).run(requests) == alone(new_engine, requests)


def test_the_order_of_arrival_changes_no_answer(llm: Any, new_engine: NewEngine) -> None:
    requests = [request(llm, i, 10 + 9 * i, temperature=1.0, seed=i) for i in range(6)]
    expected = new_engine(2).run(requests)
    for seed in range(3):
        shuffled = random.Random(seed).sample(requests, len(requests))
        assert new_engine(2).run(shuffled) == expected


def test_the_logits_of_a_slot_are_the_same_bits_whatever_the_other_slots_hold(
    llm: Any, new_engine: NewEngine
) -> None:
    def logits(others: Sequence[Any], first: bool) -> list[torch.Tensor]:
        engine, seen = new_engine(4), list[torch.Tensor]()
        chosen = engine._chosen

        def watched(rows: torch.Tensor, slots: Any) -> Any:
            seen.extend(row.clone() for row, slot in zip(rows, slots, strict=True) if slot.request.id == "r9")
            return chosen(rows, slots)

        engine._chosen = watched
        mine = request(llm, 9, 50, 40)
        engine.run([mine, *others] if first else [*others, mine])
        return seen

    expected = logits([], first=True)
    for first in (True, False):
        rows = logits([request(llm, i, 60 + i, 60) for i in range(3)], first)
        assert len(rows) == len(expected) == 40
        assert all(torch.equal(a, b) for a, b in zip(rows, expected, strict=True))


def test_what_a_slot_held_before_is_never_seen(llm: Any, new_engine: NewEngine) -> None:
    engine = new_engine(1)
    with torch.inference_mode():
        for keys, values in engine._cache.layers:
            keys.fill_(1e4)
            values.fill_(-1e4)
    engine.run([request(llm, 5, 90, 30)])
    short = request(llm, 6, 8, 10)
    assert engine.run([short]) == alone(new_engine, [short], slots=1)


def test_a_prompt_is_prefilled_while_others_decode_and_a_finished_one_leaves_at_once(
    llm: Any, new_engine: NewEngine
) -> None:
    engine = new_engine(2)
    for number, count in enumerate((6, 2, 3)):
        engine.add(request(llm, number, 5, count))
    steps = []
    while engine.busy:
        steps.append([(t.request, t.number, t.finish) for t in engine.step()])
    assert steps == [
        [("r0", 1, None)],
        [("r0", 2, None), ("r1", 1, None)],
        [("r0", 3, None), ("r1", 2, "length"), ("r2", 1, None)],
        [("r0", 4, None), ("r2", 2, None)],
        [("r0", 5, None), ("r2", 3, "length")],
        [("r0", 6, "length")],
    ]


def test_an_answer_ends_with_end_unless_told_otherwise(llm: Any, new_engine: NewEngine) -> None:
    class Ending:
        """Logits of a model whose third byte is END."""

        def __init__(self, engine: Any) -> None:
            self.engine, self.chosen = engine, engine._chosen

        def __call__(self, logits: Any, slots: Any) -> list[int]:
            return [llm.model.END if slot.count == 2 else 65 for slot in slots]

    for ignore, expected in ((False, [65, 65, 0]), (True, [65, 65, 0, 65, 65])):
        engine = new_engine(1)
        engine._chosen = Ending(engine)
        assert engine.run([request(llm, 1, 4, 5, ignore_eos=ignore)]) == {"r1": expected}


def test_a_cancelled_request_frees_its_slot_and_its_place_in_the_row(llm: Any, new_engine: NewEngine) -> None:
    engine = new_engine(1)
    for number in range(3):
        engine.add(request(llm, number))
    engine.step()
    engine.cancel("r0")
    engine.cancel("r1")
    engine.cancel("unknown")
    assert (engine.running, engine.waiting) == (0, 1)
    assert {t.request for t in engine.step()} == {"r2"}


def test_the_most_likely_bytes_alone_are_drawn_with_top_k(llm: Any, new_engine: NewEngine) -> None:
    likely = request(llm, 1, count=8)
    drawn = request(llm, 1, count=8, temperature=50.0, top_k=1, seed=3)
    assert alone(new_engine, [drawn]) == alone(new_engine, [likely])
    first = {
        alone(new_engine, [request(llm, 1, count=1, temperature=9.0, top_k=2, seed=s)])["r1"][0]
        for s in range(30)
    }
    assert len(first) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompt": ()}, "the prompt is empty"),
        ({"prompt": (300,)}, "outside of 0..255"),
        ({"max_tokens": 0}, "at least 1"),
        ({"max_tokens": 150}, "more than the context of 160"),
        ({"temperature": -1.0}, "temperature must be"),
        ({"top_k": 1000}, "top_k from 0 to 256"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused(
    llm: Any, new_engine: NewEngine, change: Any, words: str
) -> None:
    engine = new_engine(1)
    given = {"id": "a", "prompt": prompt(1, 20), "max_tokens": 5, **change}
    with pytest.raises(ValueError, match=words):
        engine.add(llm.engine.Request(**given))
    assert not engine.busy
