"""A client of OpenAI-style endpoints that streams, measures and sends again what was lost.

It asks our endpoint and vLLM alike. A prompt is a list of tokens; an answer counts once its stream is
complete, with `[DONE]`: whatever came of an attempt that broke is thrown away.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
from timing import Timing

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before a prompt is sent again: twice as many each time."""


@dataclass(frozen=True)
class Prompt:
    id: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """A complete answer. `timing` counts from the first time that its prompt was sent."""

    id: str
    tokens: tuple[int, ...]
    timing: Timing
    checkpoint: str = ""
    """SHA-256 of the checkpoint that gave it; empty where the endpoint does not say."""

    @property
    def sha256(self) -> str:
        return digest(self.tokens)


@dataclass(frozen=True)
class Failure:
    """An attempt that gave no answer. `at` counts on the clock of the run."""

    id: str
    attempt: int
    at: float
    reason: str


class LostError(Exception):
    """An attempt broke, or the server is not there: the same again may succeed."""


class RefusedError(Exception):
    """The server refuses the request: the same again will not succeed."""


def digest(tokens: Iterable[int]) -> str:
    """SHA-256 of an answer."""
    return hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()


def random_prompts(count: int, tokens: int, seed: int = 0) -> list[Prompt]:
    """Prompts of random letters: every one of the same length, the same ones for the same seed."""
    draw = random.Random(seed)
    letters = b"abcdefghijklmnopqrstuvwxyz      \n"
    return [Prompt(f"prompt-{n:05d}", tuple(draw.choices(letters, k=tokens))) for n in range(count)]


@dataclass(frozen=True)
class Target:
    """The endpoint and what is asked of it: greedy answers of a fixed length."""

    url: str
    """Without `/v1`."""
    model: str
    token: str
    max_tokens: int
    checkpoint: str = ""
    """SHA-256 of the checkpoint that is to answer: one that names another is refused. Empty for any."""

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """The request for one answer."""
        return {
            "model": self.model, "prompt": list(prompt.tokens), "max_tokens": self.max_tokens,
            "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
            "stream_options": {"include_usage": True},
        }  # fmt: skip


async def documents(lines: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """The documents of a stream of server-sent events. Raises LostError for one without its end."""
    async for line in lines:
        content = line.strip()
        if not content.startswith(b"data:"):
            continue
        content = content[len(b"data:") :].strip()
        if content == b"[DONE]":
            return
        try:
            document = json.loads(content)
        except ValueError:
            raise LostError("the stream has a part that is not JSON") from None
        if "error" in document:
            raise LostError(str(document["error"]))
        yield document
    raise LostError("the stream ended too early")


async def receive(
    lines: AsyncIterator[bytes], prompt: Prompt, sent_at: float, now: Callable[[], float]
) -> Answer:
    """An answer from the lines of its stream. Raises LostError for an incomplete one."""
    tokens: list[int] = []
    parts: list[float] = []
    usage: dict[str, int] = {}
    checkpoints: set[str] = set()
    async for document in documents(lines):
        checkpoints.add(str(document.get("system_fingerprint") or ""))
        if document.get("choices"):
            parts.append(now() - sent_at)
            choice = document["choices"][0]
            ids = choice.get("token_ids")
            tokens += ids if ids is not None else choice.get("text", "").encode()
        usage = document.get("usage") or usage
    if not parts:
        raise LostError("the stream has no part")
    if len(checkpoints) > 1:
        raise LostError("the parts of the stream are of several checkpoints")
    count = usage.get("completion_tokens", len(tokens))
    timing = Timing(prompt.id, sent_at, tuple(parts), usage.get("prompt_tokens", len(prompt.tokens)), count)
    return Answer(prompt.id, tuple(tokens), timing, *checkpoints)


Ask = Callable[[Prompt, float], Awaitable[Answer]]
"""Asks for one answer; takes the time on the run's clock from which it is measured."""


def asking(session: aiohttp.ClientSession, target: Target, now: Callable[[], float]) -> Ask:
    """Ask an endpoint over HTTP. The Ask raises LostError, RefusedError."""
    headers = {"Authorization": f"Bearer {target.token}"}

    async def ask(prompt: Prompt, sent_at: float) -> Answer:
        url = f"{target.url}/v1/completions"
        try:
            async with session.post(url, json=target.body(prompt), headers=headers) as response:
                if response.status in (400, 401, 403, 404, 405, 413, 422):
                    raise RefusedError(f"{url}: HTTP {response.status}: {(await response.text())[:300]}")
                if response.status != 200:
                    raise LostError(f"HTTP {response.status}")
                answer = await receive(aiter(response.content), prompt, sent_at, now)
                if target.checkpoint and answer.checkpoint not in ("", target.checkpoint):
                    other, wanted = answer.checkpoint[:16], target.checkpoint[:16]
                    raise RefusedError(f"{url} answers with the checkpoint {other}, not {wanted}")
                return answer
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise LostError(repr(error)) from error

    return ask


def session(part_seconds: float) -> aiohttp.ClientSession:
    """A session that gives a stream up when nothing has come for so long."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=part_seconds)
    return aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))


async def answer_all(
    prompts: Sequence[Prompt],
    ask: Ask,
    in_flight: int,
    give_up: float,
    on_answer: Callable[[Answer], Awaitable[None]],
    on_failure: Callable[[Failure], None],
    now: Callable[[], float] = time.perf_counter,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[str]:
    """Have every prompt answered, so many at a time; returns the ids of those that were given up.

    A prompt whose attempt is lost is sent again until `give_up` seconds have passed since its first one. The
    server keeps nothing of a lost attempt, so an answer is taken once. Raises RefusedError.
    """
    todo = iter(prompts)
    given_up: list[str] = []

    async def work() -> None:
        for prompt in todo:
            began, attempt, wait = now(), 1, FIRST_PAUSE
            while True:
                try:
                    answer = await ask(prompt, began)
                except LostError as error:
                    on_failure(Failure(prompt.id, attempt, now(), str(error)))
                    if now() - began + wait > give_up:
                        given_up.append(prompt.id)
                        break
                    await pause(wait)
                    attempt, wait = attempt + 1, min(2 * wait, LONGEST_PAUSE)
                else:
                    timing = replace(answer.timing, attempts=attempt)
                    await on_answer(replace(answer, timing=timing))
                    break

    workers = [asyncio.ensure_future(work()) for _ in range(in_flight)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
    return given_up
