"""An engine for inference: many requests share one model, and none waits for another's end.

The cache has a fixed number of slots. Each step (`Engine.step`) does two things, which together are called
continuous batching: every occupied slot gets its next byte, all in one pass through the model (decode), and
the oldest waiting prompt is computed into a free slot (prefill). A request that has ended frees its slot at
once.

A pass through the model (inference.py) costs the reading of its weights, for one
slot as for all: that is why they share it.

The answer to a request does not depend on the others. A prompt is computed alone; a decode always computes
all slots, free ones with a byte that nobody reads, so that its matrices have the same shape however many
are busy; a slot's row sees its own places only; and what is drawn at random depends on the request's seed
and nothing else.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

import torch
from inference import Inference
from model import END, VOCABULARY, Decoder
from torch import Tensor


@dataclass(frozen=True)
class Request:
    """A prompt, and the way to go on from it."""

    id: str
    prompt: tuple[int, ...]
    """Bytes."""
    max_tokens: int
    temperature: float = 0.0
    """0: always the most likely byte. Else logits are divided by it, and a byte is drawn."""
    top_k: int = 0
    """Draw among so many most likely bytes; 0: among all."""
    seed: int = 0
    ignore_eos: bool = False
    """Go on after END up to `max_tokens`."""


@dataclass(frozen=True)
class Token:
    """A byte of an answer."""

    request: str
    token: int
    number: int
    """From 1."""
    finish: str | None = None
    """With the last one: `stop` (it is END) or `length`."""


@dataclass
class _Slot:
    """A request in work. `place` is where its newest token will stand in the cache."""

    request: Request
    draws: random.Random
    place: int
    token: int = 0
    count: int = 0


class Engine:
    """Answers requests with one model, in slots. It is used by one thread."""

    def __init__(self, model: Decoder, slots: int = 16, places: int | None = None) -> None:
        """`places` are the most bytes of a prompt and its answer together: at most the model's context."""
        if slots < 1:
            raise ValueError(f"slots={slots}: at least one")
        self.places = min(places or model.config.context, model.config.context)
        self._model = Inference(model)
        self._device = self._model.device
        self._cache = self._model.new_cache(slots, self.places)
        self._slots: list[_Slot | None] = [None] * slots
        self._waiting: deque[Request] = deque()

    @property
    def busy(self) -> bool:
        """True while a request waits or is in work."""
        return bool(self._waiting) or any(self._slots)

    @property
    def running(self) -> int:
        """Slots that are occupied."""
        return sum(slot is not None for slot in self._slots)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def check(self, request: Request) -> None:
        """Raise ValueError, with the reason, for a request that cannot be answered."""
        if not request.prompt:
            raise ValueError("the prompt is empty")
        if not all(0 <= token < VOCABULARY for token in request.prompt):
            raise ValueError(f"the prompt has a token outside of 0..{VOCABULARY - 1}")
        if request.max_tokens < 1:
            raise ValueError(f"max_tokens is {request.max_tokens}: at least 1")
        if len(request.prompt) + request.max_tokens > self.places:
            raise ValueError(
                f"a prompt of {len(request.prompt)} tokens and max_tokens of {request.max_tokens} "
                f"are more than the context of {self.places}"
            )
        if not 0 <= request.temperature <= 100 or not 0 <= request.top_k <= VOCABULARY:
            raise ValueError(f"temperature must be from 0 to 100, top_k from 0 to {VOCABULARY}")

    def add(self, request: Request) -> None:
        """Let a request wait for a slot. Raises ValueError as `check` does."""
        self.check(request)
        self._waiting.append(request)

    def cancel(self, request: str) -> None:
        """Forget a request whose answer nobody waits for; no-op for one that has ended."""
        self._waiting = deque(waiting for waiting in self._waiting if waiting.id != request)
        for number, slot in enumerate(self._slots):
            if slot is not None and slot.request.id == request:
                self._slots[number] = None

    @torch.inference_mode()
    def step(self) -> list[Token]:
        """Decode one byte for every request in work, then prefill one prompt; returns the new bytes."""
        busy = [number for number, slot in enumerate(self._slots) if slot is not None]
        tokens = self._decode(busy) if busy else []
        if self._waiting and None in self._slots:
            tokens.append(self._prefill(self._slots.index(None), self._waiting.popleft()))
        return tokens

    def run(self, requests: list[Request]) -> dict[str, list[int]]:
        """Answer these requests; returns the bytes of each by its id."""
        for request in requests:
            self.add(request)
        answers: dict[str, list[int]] = {request.id: [] for request in requests}
        while self.busy:
            for token in self.step():
                answers[token.request].append(token.token)
        return answers

    def _prefill(self, number: int, request: Request) -> Token:
        length = len(request.prompt)
        slot = _Slot(request, random.Random(request.seed), length)
        self._slots[number] = slot
        tokens = torch.tensor([request.prompt], device=self._device)
        cache = self._cache.rows(number, number + 1).until(length)
        logits = self._model(tokens, torch.arange(length, device=self._device)[None], cache)
        return self._next(number, slot, self._chosen(logits[0, -1:], [slot])[0])

    def _decode(self, busy: list[int]) -> list[Token]:
        slots = [slot or _FREE for slot in self._slots]
        places = [slot.place for slot in slots]
        numbers = ([slot.token for slot in slots], places)
        new, where = (torch.tensor(column, device=self._device)[:, None] for column in numbers)
        logits = self._model(new, where, self._cache.until(max(places) + 1))[:, 0]
        chosen = self._chosen(logits[busy], [slots[number] for number in busy])
        return [self._next(number, slots[number], token) for number, token in zip(busy, chosen, strict=True)]

    def _next(self, number: int, slot: _Slot, token: int) -> Token:
        """Take the byte as the slot's newest; free the slot where it is the last."""
        request = slot.request
        slot.place += 1 if slot.count else 0
        slot.token, slot.count = token, slot.count + 1
        finish = None
        if token == END and not request.ignore_eos:
            finish = "stop"
        elif slot.count == request.max_tokens:
            finish = "length"
        if finish:
            self._slots[number] = None
        return Token(request.id, token, slot.count, finish)

    def _chosen(self, logits: Tensor, slots: list[_Slot]) -> list[int]:
        """The next byte of each slot, from its row of `logits` (slots, 256)."""
        chosen: list[int] = logits.argmax(dim=-1).tolist()
        for row, slot in enumerate(slots):
            if slot.request.temperature > 0:
                chosen[row] = _drawn(logits[row], slot)
        return chosen


_FREE = _Slot(Request("", (END,), 1), random.Random(0), 0)
"""Stands in for a slot that is free."""


def _drawn(logits: Tensor, slot: _Slot) -> int:
    """A byte drawn from the row of logits, with the slot's next random number."""
    request = slot.request
    scaled = logits.double() / request.temperature
    if request.top_k:
        least = scaled.topk(request.top_k).values[-1]
        scaled = scaled.masked_fill(scaled < least, -torch.inf)
    sums = scaled.softmax(dim=-1).cumsum(dim=-1)
    place = torch.searchsorted(sums, slot.draws.random() * float(sums[-1]), right=True)
    return min(int(place), VOCABULARY - 1)
