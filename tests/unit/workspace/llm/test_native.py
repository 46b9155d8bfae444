"""The recipe `llm`: its step of decoding in C."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.compiler import needs_gcc

CONTEXT = 200


def model(llm: Any, **shape: Any) -> Any:
    torch.manual_seed(3)
    given = {"width": 64, "layers": 2, "inner": 72, "heads": 4, "kv_heads": 2, "context": CONTEXT, **shape}
    made = llm.model.Decoder(llm.model.ModelConfig(**given)).eval()
    with torch.no_grad():
        for weight in made.parameters():  # norms that do something, and logits that differ
            weight.mul_(4) if weight.dim() == 2 else weight.uniform_(0.5, 2)
    return made


def prefilled(llm: Any, made: Any, lengths: list[int]) -> tuple[Any, Any]:
    """A decoder for inference, and a cache with a prompt of each length in its slot."""
    fast = llm.inference.Inference(made)
    cache = fast.new_cache(rows=len(lengths))
    for slot, length in enumerate(lengths):
        tokens = torch.randint(1, 256, (1, length), generator=torch.Generator().manual_seed(slot))
        fast(tokens, torch.arange(length)[None], cache.rows(slot, slot + 1).until(length))
    return fast, cache


def steps(decode: Any, places: list[int], count: int) -> list[torch.Tensor]:
    """The logits of so many steps, whose bytes are made up."""
    rows = []
    for number in range(count):
        tokens = [(31 * number + 7 * slot) % 256 for slot in range(len(places))]
        rows.append(decode(tokens, [place + number for place in places]).clone())
    return rows


@needs_gcc
@pytest.mark.parametrize("slots", [1, 5, 8, 16, 19])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"width": 128, "heads": 8},
        {"heads": 2, "kv_heads": 2},
        {"width": 192, "heads": 6},
        {"tied": False},
    ],
    ids=str,
)
def test_its_logits_are_those_of_the_decoder_for_inference_but_for_rounding(
    llm: Any, shape: dict[str, Any], slots: int
) -> None:
    made, lengths = model(llm, **shape), [1 + 37 * slot % 150 for slot in range(slots)]
    fast, cache = prefilled(llm, made, lengths)
    rows = steps(llm.native.Decode(made, cache), lengths, 3)

    fast, cache = prefilled(llm, made, lengths)

    def by_torch(tokens: list[int], places: list[int]) -> torch.Tensor:
        new, where = torch.tensor(tokens)[:, None], torch.tensor(places)[:, None]
        logits: torch.Tensor = fast(new, where, cache)[:, 0]
        return logits

    expected = steps(by_torch, lengths, 3)
    torch.testing.assert_close(torch.stack(rows), torch.stack(expected), atol=2e-4, rtol=2e-4)


@needs_gcc
def test_every_byte_of_a_row_is_decoded_across_blocks_up_to_the_end_of_the_context(llm: Any) -> None:
    made = model(llm)
    row = torch.randint(1, 256, (1, CONTEXT), generator=torch.Generator().manual_seed(5))
    decode = llm.native.Decode(made, llm.inference.Inference(made).new_cache(rows=1))
    rows = torch.cat([decode([int(row[0, place])], [place]).clone() for place in range(CONTEXT)])
    torch.testing.assert_close(rows, made(row)[0].detach(), atol=2e-4, rtol=2e-4)


@needs_gcc
@pytest.mark.parametrize("slot", [0, 3, 7, 8, 18])
def test_a_slot_gets_the_same_bits_wherever_it_is_whatever_is_beside_it_and_with_any_number_of_threads(
    llm: Any, slot: int
) -> None:
    made, tokens = model(llm), torch.randint(1, 256, (1, 60), generator=torch.Generator().manual_seed(9))

    def logits(slots: int, slot: int, others: int, threads: int) -> list[torch.Tensor]:
        fast, cache = prefilled(llm, made, [others] * slots)
        fast(tokens, torch.arange(60)[None], cache.rows(slot, slot + 1).until(60))
        decode, places = llm.native.Decode(made, cache), [others] * slots
        rows, newest = [], 65
        torch.set_num_threads(threads)
        for place in range(60, 70):
            news = [(17 * place + other) % 256 for other in range(slots)]
            news[slot], places[slot] = newest, place
            row = decode(news, places)[slot].clone()
            rows.append(row)
            newest = int(row.argmax())
        return rows

    expected = logits(1, 0, 1, 1)
    for slots, others, threads in ((19, 1, 1), (19, 130, 2), (24, 64, 3)):
        rows = logits(slots, slot, others, threads)
        assert all(torch.equal(a, b) for a, b in zip(rows, expected, strict=True)), (slots, others, threads)


@needs_gcc
def test_what_it_would_read_or_write_outside_of_its_memory_is_refused(llm: Any) -> None:
    made = model(llm)
    fast = llm.inference.Inference(made)
    decode = llm.native.Decode(made, fast.new_cache(rows=2))
    for tokens, places in (([1, 256], [0, 0]), ([1, -1], [0, 0]), ([1, 1], [0, CONTEXT]), ([1, 1], [-1, 0]),
                           ([1], [0]), ([1, 1, 1], [0, 0, 0])):  # fmt: skip
        with pytest.raises(IndexError):
            decode(tokens, places)
    with pytest.raises(IndexError):
        llm.native.Decode(made, fast.new_cache(rows=1, places=64))([1], [64])
    with pytest.raises(ValueError, match="a whole cache"):
        llm.native.Decode(made, fast.new_cache(rows=3).rows(0, 2))


@needs_gcc
@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ({"width": 40}, torch.float32, "heads of a multiple of"),
        ({"width": 36, "heads": 3, "kv_heads": 1}, torch.float32, "the model has 12 and 36"),
        ({}, torch.bfloat16, "float32 on a CPU, not torch.bfloat16 on cpu"),
    ],
)
def test_a_model_that_it_cannot_compute_is_refused_with_the_reason(
    llm: Any, shape: dict[str, Any], dtype: torch.dtype, words: str
) -> None:
    made = model(llm, **shape).to(dtype)
    cache = llm.inference.Inference(made).new_cache(rows=1)
    assert words in llm.native.unfit(made)
    with pytest.raises(ValueError, match=words):
        llm.native.Decode(made, cache)


@needs_gcc
@pytest.mark.parametrize("size", ["0.1m", "0.8m", "5m", "10m", "25m", "76m"])
def test_it_can_compute_every_size_of_the_recipe(llm: Any, size: str) -> None:
    with torch.device("meta"):
        made = llm.model.Decoder(llm.model.SIZES[size])
    assert "not torch.float32 on meta" in llm.native.unfit(made)
    made.embedding.weight = torch.nn.Parameter(torch.empty(1))
    assert not llm.native.unfit(made)


@pytest.fixture
def nothing_compiled(llm: Any) -> Iterator[None]:
    """What this process has compiled is not remembered, before the test and after it."""
    llm.native.library.cache_clear()
    yield
    llm.native.library.cache_clear()


@pytest.mark.usefixtures("nothing_compiled")
class TestACompiler:
    def gives(self, llm: Any, words: str) -> None:
        """auto then decodes by torch, and c says why it cannot."""
        assert llm.native.settle("auto") == "torch"
        with pytest.raises(llm.native.UnavailableError, match=words):
            llm.native.settle("c")
        assert llm.native.settle("torch") == "torch"

    def test_that_is_not_there(self, llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setattr(llm.native.shutil, "which", lambda name: None)
        self.gives(llm, "no C compiler: install gcc")

    def test_that_is_named_and_not_there(self, llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CC", "/nowhere/gcc-99 -m64")
        self.gives(llm, "the C compiler failed: .*nowhere/gcc-99")

    def test_that_refuses_the_source(self, llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(argv: list[str], **options: Any) -> Any:
            assert argv[:3] == ["my-cc", "-m64", "-O3"]
            return subprocess.CompletedProcess(argv, 1, "", "decode.c:1: error: no OpenMP\n" + 9 * "more\n")

        monkeypatch.setenv("CC", "my-cc -m64")
        monkeypatch.setattr(llm.native.subprocess, "run", run)
        self.gives(llm, "(?s)^my-cc -m64 -O3 .* failed:\ndecode.c:1: error: no OpenMP\n(more\n?){4}$")

    def test_whose_product_cannot_be_loaded(self, llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CC", "true")
        self.gives(llm, "decode.c was compiled, but not loaded")

    @needs_gcc
    def test_is_called_once_in_a_process(self, llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[str] = []
        run = subprocess.run

        def watched(argv: list[str], **options: Any) -> Any:
            calls.append(argv[-1])
            return run(argv, **options)

        monkeypatch.setattr(llm.native.subprocess, "run", watched)
        assert llm.native.settle("auto") == "auto"
        assert llm.native.settle("c") == "c"
        assert [call.rsplit(".", 1)[-1] for call in calls] == ["o", "so"]


@needs_gcc
@pytest.mark.parametrize("level", ["-mno-avx512f", "-march=x86-64"])
def test_it_computes_the_same_for_older_processors(
    llm: Any, level: str, monkeypatch: pytest.MonkeyPatch, nothing_compiled: None
) -> None:
    if platform.machine() != "x86_64":
        level = "-O1"
    monkeypatch.setattr(llm.native, "FLAGS", (*llm.native.FLAGS, level))
    made, lengths = model(llm), [70, 3, 100]
    fast, cache = prefilled(llm, made, lengths)
    rows = llm.native.Decode(made, cache)([1, 2, 3], lengths).clone()
    expected = fast(torch.tensor([[1], [2], [3]]), torch.tensor(lengths)[:, None], cache)[:, 0]
    torch.testing.assert_close(rows, expected, atol=2e-4, rtol=2e-4)
