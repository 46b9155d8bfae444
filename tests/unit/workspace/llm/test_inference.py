"""The recipe `llm`: batched decoding with a cache for keys and values."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

CONTEXT = 96

NewEngine = Callable[..., Any]


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def decoder(llm: Any, request: pytest.FixtureRequest) -> Any:
    torch.manual_seed(3)
    config = llm.model.ModelConfig(
        width=48, layers=2, inner=64, heads=6, kv_heads=2, context=CONTEXT, tied=request.param
    )
    made = llm.model.Decoder(config).eval()
    with torch.no_grad():
        for weight in made.parameters():  # norms that do something, and logits that differ
            weight.mul_(4) if weight.dim() == 2 else weight.uniform_(0.5, 2)
    return made


def new_request(llm: Any, number: int, length: int, count: int, **more: Any) -> Any:
    prompt = random.Random(number).choices(range(1, 256), k=length)
    settings = {"temperature": 0, "ignore_eos": True, **more}
    return llm.inference.Request(prompt=prompt, max_tokens=count, **settings)


def answers(engine: Any, requests: list[Any]) -> list[list[int]]:
    steps = list(engine.decode(requests))
    return [[token.byte for token in row if token] for row in zip(*steps, strict=True)]


def whole(decoder: Any, request: Any) -> list[int]:
    """The likeliest bytes, with the model as training calls it: whole rows, and no cache."""
    row = list(request.prompt)
    with torch.no_grad():
        for _ in range(request.max_tokens):
            row.append(int(decoder(torch.tensor([row]))[0, -1].argmax()))
    return row[len(request.prompt) :]


def test_with_a_cache_the_answers_are_those_of_whole_rows(llm: Any, decoder: Any) -> None:
    engine = llm.inference.Engine(decoder, slots=4)
    for seed in range(3):  # what an earlier batch left in the cache is not looked at
        requests = [new_request(llm, 10 * seed + n, (1, 30, 64)[n], 20 - n) for n in range(3)]
        assert answers(engine, requests) == [whole(decoder, request) for request in requests]


def test_logits_do_not_depend_by_a_bit_on_the_rows_beside_them(
    llm: Any, decoder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = llm.inference.Engine(decoder, slots=5)
    seen: list[torch.Tensor] = []
    compute = engine._logits

    def noting(tokens: Any, places: Any, rows: slice, reach: int) -> Any:
        logits = compute(tokens, places, rows, reach)
        if rows == slice(None):
            seen.append(logits)
        return logits

    monkeypatch.setattr(engine, "_logits", noting)
    mine = new_request(llm, 1, 17, 12)
    list(engine.decode([mine]))
    alone = [logits[0] for logits in seen]
    for others in range(1, 5):
        for place in range(others + 1):
            seen.clear()
            batch = [new_request(llm, 50 + n, 3 + 11 * n, 5 + 9 * n) for n in range(others)]
            batch.insert(place, mine)
            list(engine.decode(batch))
            assert all(torch.equal(logits[place], a) for logits, a in zip(seen, alone, strict=False))


def test_an_answer_ends_with_end_or_at_its_length(llm: Any, decoder: Any) -> None:
    engine = llm.inference.Engine(decoder, slots=2)
    drawn = {"temperature": 100.0, "ignore_eos": False}  # every byte is as likely as another one
    ends = set()
    for seed in range(40):
        request = new_request(llm, seed, 4, 60, seed=seed, **drawn)
        tokens = [step[0] for step in engine.decode([request])]
        assert [token.finish for token in tokens[:-1]] == [None] * (len(tokens) - 1)
        assert tokens[-1].finish == ("stop" if tokens[-1].byte == llm.model.END else "length")
        assert len(tokens) == 60 or tokens[-1].finish == "stop"
        ends.add(tokens[-1].finish)
    assert ends == {"stop", "length"}
    ignoring = new_request(llm, 1, 4, 60, temperature=100.0)
    assert len(answers(engine, [ignoring])[0]) == 60


def test_what_is_drawn_depends_on_the_seed_of_the_request_alone(llm: Any, decoder: Any) -> None:
    engine = llm.inference.Engine(decoder, slots=3)
    mine = new_request(llm, 1, 9, 20, temperature=1.5, seed=7)
    beside = [new_request(llm, n, 5 * n, 30, temperature=2.0, seed=n) for n in (2, 3)]
    alone = answers(engine, [mine])[0]
    assert answers(engine, [*beside, mine])[2][:20] == alone
    assert answers(engine, [mine.model_copy(update={"seed": 8})])[0] != alone
    cold = mine.model_copy(update={"temperature": 0.001})
    assert answers(engine, [cold])[0] == whole(decoder, mine)


@pytest.mark.parametrize("temperature", [5e-324, 1e-310, 1e-300])
def test_the_coldest_temperature_draws_the_likeliest_byte(llm: Any, decoder: Any, temperature: float) -> None:
    engine, request = llm.inference.Engine(decoder, slots=2), new_request(llm, 1, 9, 20)
    cold = request.model_copy(update={"temperature": temperature})
    assert answers(engine, [cold])[0] == whole(decoder, request)


def test_a_model_whose_logits_are_no_numbers_ends_no_batch(llm: Any, decoder: Any) -> None:
    broken = copy.deepcopy(decoder)
    broken.norm.weight.data.fill_(torch.nan)
    engine = llm.inference.Engine(broken, slots=2)
    assert len(answers(engine, [new_request(llm, 1, 9, 5, temperature=1.0)])[0]) == 5


@pytest.mark.parametrize(
    ("length", "count", "fits"), [(0, 4, False), (1, CONTEXT, False), (1, CONTEXT - 1, True)]
)
def test_a_request_has_to_fit_into_the_context(
    llm: Any, decoder: Any, length: int, count: int, fits: bool
) -> None:
    engine, request = llm.inference.Engine(decoder, slots=2), new_request(llm, 1, length, count)
    if fits:
        engine.check(request)
        assert answers(engine, [request]) == [whole(decoder, request)]
    else:
        with pytest.raises(ValueError, match=f"1 to {CONTEXT} bytes"):
            engine.check(request)


def test_in_bf16_logits_are_near_those_of_float32(llm: Any, decoder: Any) -> None:
    row, places = torch.arange(1, 91)[None], torch.arange(90)[None]
    models = decoder, copy.deepcopy(decoder).bfloat16()
    with torch.inference_mode():
        engines = [llm.inference.Engine(model, slots=1) for model in models]
        exact, half = (engine._logits(row, places, slice(0, 1), 90) for engine in engines)
    assert half.dtype == torch.bfloat16
    assert (half.float() - exact).abs().mean() < 0.05 * exact.std()


@pytest.fixture
def args(llm: Any, tmp_path: Path) -> SimpleNamespace:
    """Settings with a small model: a checkpoint in a folder."""
    torch.manual_seed(1)
    config = llm.model.ModelConfig(16, 1, 16, 2, 1, context=48)
    llm.model.save_model(config, llm.model.Decoder(config).state_dict(), tmp_path)
    return SimpleNamespace(checkpoint=str(tmp_path), slots=2, context=32, threads=1, dtype="auto", gpus=0)


@pytest.mark.parametrize(
    ("dtype", "share", "lab", "device", "expected"),
    [
        ("auto", 0, "nvidia", "cpu", "float32"),
        ("auto", 1, "nvidia", "cuda", "bfloat16"),
        ("auto", 1, "simulated", "cpu", "float32"),
        ("bfloat16", 0, "nvidia", "cpu", "bfloat16"),
        ("float32", 0.5, "nvidia", "cuda", "float32"),
    ],
)
def test_an_engine_takes_a_gpu_that_it_has_a_share_of_and_the_format_that_was_asked_for(
    llm: Any, args: SimpleNamespace, monkeypatch: pytest.MonkeyPatch,
    dtype: str, share: float, lab: str, device: str, expected: str,
) -> None:  # fmt: skip
    """Every process sees a GPU here, as Ray lets those without a share of one."""
    placed: list[Any] = []

    def place(model: Any, *where: Any) -> Any:
        placed.append(where)
        return model

    monkeypatch.setenv("RAYLAB_GPU", lab)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(llm.model.Decoder, "to", place)
    args.dtype, args.gpus = dtype, share
    engine, sha256 = llm.inference.load(args)
    assert placed == [(device, getattr(torch, expected))]
    assert (engine.context, engine.slots) == (32, 2)
    assert sha256 == llm.checkpoint.sha256_of(Path(args.checkpoint))
