"""Batched decoding with a cache for keys and values: up to `slots` prompts share one model.

    engine = Engine(model, slots=16)
    for step in engine.decode(requests):  # a byte for each of them; None for one that has ended
        ...

A pass through the model costs the reading of its weights, for one row as for all: that is why rows share it.
A batch ends with its longest answer; what came meanwhile is in the next one.

An answer does not depend on those beside it. A prompt is computed alone. Every later pass computes all rows
over all places of the cache, so that its matrices always have the same shape; a row looks at its own places
only, and what is drawn for it at random depends on its seed.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import torch
from checkpoint import sha256_of
from model import END, VOCABULARY, Decoder, load_model, rotate
from pydantic import BaseModel, Field
from ray.train import Checkpoint
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention


class Request(BaseModel, extra="forbid"):
    """OpenAI's request for a completion; `ignore_eos` and `return_token_ids` are vLLM's. Tokens are bytes.

    A field that is not here is refused: to ignore it would be a wrong answer.
    """

    model: Literal["llm"] = "llm"
    prompt: bytes | list[Annotated[int, Field(ge=0, le=255)]]
    max_tokens: int = Field(16, ge=1)
    temperature: float = Field(1.0, ge=0, le=100)
    """0: always the most likely byte. Else logits are divided by it, and a byte is drawn."""
    seed: int = 0
    ignore_eos: bool = False
    """Go on after END up to `max_tokens`."""
    stream: bool = False
    return_token_ids: bool = False


class Token(NamedTuple):
    """A byte of an answer; with the last one `finish` is `stop` (it is END) or `length`."""

    byte: int
    finish: str | None


class Engine:
    """Answers requests with one model, a batch at a time."""

    def __init__(self, model: Decoder, slots: int = 16) -> None:
        c, weight = model.config, model.embedding.weight.detach()
        self.slots, self.context, self._model, self._device = slots, c.context, model, weight.device
        shape = (c.layers, slots, c.kv_heads, c.context, c.head)
        self._keys, self._values = weight.new_zeros(shape), weight.new_zeros(shape)

    def check(self, request: Request) -> None:
        """Raise ValueError for a request that does not fit into the context."""
        length, most = len(request.prompt), request.max_tokens
        if not 0 < length <= self.context - most:
            raise ValueError(f"{length} bytes and max_tokens={most}: 1 to {self.context} bytes are possible")

    @torch.inference_mode()
    def decode(self, requests: Sequence[Request]) -> Iterator[list[Token | None]]:
        """Answer at most `slots` requests, a byte of each at a time."""
        draws = [random.Random(request.seed) for request in requests]
        lengths = [len(request.prompt) for request in requests] + [0] * (self.slots - len(requests))
        places = torch.tensor(lengths, device=self._device)[:, None]
        logits = torch.zeros(self.slots, VOCABULARY, device=self._device)
        for row, request in enumerate(requests):  # prefill
            prompt = torch.tensor([list(request.prompt)], device=self._device)
            at = torch.arange(lengths[row], device=self._device)[None]
            logits[row] = self._logits(prompt, at, slice(row, row + 1), lengths[row])
        count, running = 0, set(range(len(requests)))
        while True:
            chosen, count = logits.argmax(-1).tolist(), count + 1
            step: list[Token | None] = [None] * len(requests)
            for row in sorted(running):
                request = requests[row]
                if request.temperature > 0:
                    likely = logits[row].double()
                    weights = ((likely - likely.max()) / request.temperature).softmax(-1)
                    if weights.isfinite().all():
                        chosen[row] = draws[row].choices(range(VOCABULARY), weights.tolist())[0]
                stop = chosen[row] == END and not request.ignore_eos
                finish = "stop" if stop else "length" if count == request.max_tokens else None
                step[row] = Token(chosen[row], finish)
                running -= {row} if finish else set()
            yield step
            if not running:
                return
            new = torch.tensor(chosen, device=self._device)[:, None]
            logits = self._logits(new, places, slice(None), self.context)
            places = (places + 1).clamp(max=self.context - 1)  # rows that have ended go on, unread

    def _logits(self, tokens: Tensor, places: Tensor, rows: slice, reach: int) -> Tensor:
        """Logits (B, 256) of the byte after each row of `tokens` (B, T), which stand at `places` (B, T).

        It is what model.py's Decoder computes. The keys and values of the bytes go into these rows of the
        cache, of which the first `reach` places are looked at.
        """
        model, head, (count, length) = self._model, self._model.config.head, tokens.shape
        x, table = model.embedding(tokens), model.table[:, places][:, :, None]
        later = torch.arange(reach, device=self._device) > places[:, None, :, None]
        mask = torch.zeros(later.shape, dtype=x.dtype, device=self._device).masked_fill(later, -torch.inf)
        row = torch.arange(count, device=self._device)[:, None]
        for block, keys, values in zip(model.blocks, self._keys[:, rows], self._values[:, rows], strict=True):
            layers, y = block.attention, block.attention_norm(x)
            query, key, value = (
                layer(y).view(count, length, -1, head).transpose(1, 2)
                for layer in (layers.query, layers.key, layers.value)
            )
            keys[row, :, places] = rotate(key, table).transpose(1, 2)
            values[row, :, places] = value.transpose(1, 2)
            cache = keys[:, :, :reach], values[:, :, :reach]
            seen = scaled_dot_product_attention(rotate(query, table), *cache, mask, enable_gqa=True)
            x = x + layers.output(seen.transpose(1, 2).reshape(count, length, -1))
            x = x + block.feed(block.feed_norm(x))
        x = model.norm(x[:, -1])
        return linear(x, model.embedding.weight) if model.output is None else model.output(x)


def load(args: argparse.Namespace) -> tuple[Engine, str]:
    """An engine with the model of `args.checkpoint` (serve.arguments), and the SHA-256 of that.

    It is on a GPU where this process has a share of a real one: without a share it may still see it.
    """
    torch.set_num_threads(args.threads)
    gpu = args.gpus > 0 and os.environ.get("RAYLAB_GPU") != "simulated" and torch.cuda.is_available()
    dtype = ("bfloat16" if gpu else "float32") if args.dtype == "auto" else args.dtype
    with Checkpoint(args.checkpoint).as_directory() as folder:
        model, sha256 = load_model(Path(folder), context=args.context), sha256_of(Path(folder))
    return Engine(model.to("cuda" if gpu else "cpu", getattr(torch, dtype)), args.slots), sha256
