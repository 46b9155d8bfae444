"""The recipe `llm`: its endpoint, and the client that asks it."""

from __future__ import annotations

import asyncio
import itertools
import json
import queue
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import torch

SHA256 = "ab" * 32
"""Of the checkpoint that answers."""

SECRET = {"authorization": "Bearer secret"}


class Stepped:
    """A runner without a thread: it works beside whoever takes what it gives."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.failure = ""
        self.cancelled: list[str] = []
        self.broken_after: int | None = None

    def check(self, request: Any) -> None:
        self.engine.check(request)

    def submit(self, request: Any, on_token: Any) -> None:
        self.engine.add(request)
        self.work = asyncio.ensure_future(self.answer(request, on_token))

    async def answer(self, request: Any, on_token: Any) -> None:
        given = 0
        while self.engine.busy:
            for token in self.engine.step():
                if given == self.broken_after:
                    self.engine.cancel(request.id)
                    on_token(None)
                    return
                on_token(token)
                given += 1
            for _ in range(9):  # whoever waits for it is woken, and takes it
                await asyncio.sleep(0)

    def cancel(self, request: str) -> None:
        self.cancelled.append(request)


@pytest.fixture(scope="module")
def decoder(llm: Any) -> Any:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    return llm.model.Decoder(
        llm.model.ModelConfig(width=16, layers=1, inner=16, heads=2, kv_heads=1, context=64)
    )


@pytest.fixture
def runner(llm: Any, decoder: Any) -> Stepped:
    return Stepped(llm.engine.Engine(decoder, slots=2))


@pytest.fixture
def endpoint(llm: Any, runner: Stepped) -> Any:
    """Of a slow engine: every byte comes a second after the one before."""
    seconds = itertools.count()
    return llm.endpoint.Endpoint(runner, "llm", 64, "secret", SHA256, clock=lambda: float(next(seconds)))


def ask(
    endpoint: Any, body: Any, method: str = "POST", path: str = "/v1/completions", headers: Any = None
) -> Any:
    """The status, and the document or the events of the answer."""

    async def run() -> Any:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        reply = await endpoint.handle(method, path, SECRET if headers is None else headers, sent)
        if reply.stream is None:
            return reply.status, reply.document
        return reply.status, [part async for part in reply.stream]

    return asyncio.run(run())


def expected(llm: Any, decoder: Any, prompt: str, count: int) -> list[int]:
    request = llm.engine.Request("x", tuple(prompt.encode()), count, ignore_eos=True)
    tokens: list[int] = llm.engine.Engine(decoder, slots=2).run([request])["x"]
    return tokens


def test_a_completion_has_openais_form(llm: Any, decoder: Any, endpoint: Any) -> None:
    body = {"prompt": "abc", "max_tokens": 4, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    status, answer = ask(endpoint, body)
    tokens = expected(llm, decoder, "abc", 4)
    assert status == 200
    assert (answer["object"], answer["model"]) == ("text_completion", "llm")
    assert answer["system_fingerprint"] == SHA256
    choice = answer["choices"][0]
    assert (choice["finish_reason"], choice["token_ids"]) == ("length", tokens)
    assert choice["text"] == bytes(t for t in tokens if t).decode(errors="replace")
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def test_a_stream_ends_with_its_usage_and_done(llm: Any, decoder: Any, endpoint: Any) -> None:
    body = {"prompt": list(b"abc"), "max_tokens": 3, "temperature": 0, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}, "return_token_ids": True}  # fmt: skip
    status, parts = ask(endpoint, body)
    *events, usage, done = parts
    documents = [json.loads(event.removeprefix(b"data: ")) for event in events]
    assert (status, done) == (200, b"data: [DONE]\n\n")
    assert [d["choices"][0]["token_ids"] for d in documents] == [
        [t] for t in expected(llm, decoder, "abc", 3)
    ]
    assert [d["choices"][0]["finish_reason"] for d in documents] == [None, None, "length"]
    last = json.loads(usage.removeprefix(b"data: "))
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 3)


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [(0.0, [1, 8]), (0.004, [1, 3, 3, 2]), (0.006, [1, 2, 2, 2, 2]), (0.02, [1] * 9)],
)
def test_a_fast_engine_gives_parts_a_while_apart_but_the_first_and_the_last_at_once(
    llm: Any, decoder: Any, runner: Stepped, seconds: float, sizes: list[int]
) -> None:
    ticks = itertools.count()
    endpoint = llm.endpoint.Endpoint(runner, "llm", 64, "secret", SHA256, clock=lambda: seconds * next(ticks))
    body = {"prompt": "abc", "max_tokens": 9, "temperature": 0, "ignore_eos": True, "stream": True,
            "return_token_ids": True}  # fmt: skip
    _, parts = ask(endpoint, body)
    choices = [json.loads(part.removeprefix(b"data: "))["choices"][0] for part in parts[:-1]]
    assert [len(choice["token_ids"]) for choice in choices] == sizes
    assert [t for choice in choices for t in choice["token_ids"]] == expected(llm, decoder, "abc", 9)
    text = bytes(t for t in expected(llm, decoder, "abc", 9) if t).decode(errors="replace")
    assert "".join(choice["text"] for choice in choices) == text


def test_without_include_usage_a_stream_has_none(endpoint: Any) -> None:
    _, parts = ask(endpoint, {"prompt": "a", "max_tokens": 2, "stream": True, "ignore_eos": True})
    assert len(parts) == 3
    assert b"usage" not in b"".join(parts)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer other"}, {"authorization": "secret"}])
def test_only_who_has_the_token_is_answered(endpoint: Any, headers: Any) -> None:
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/completions"), ("GET", "/elsewhere")):
        status, answer = ask(endpoint, {"prompt": "a"}, method, path, headers)
        assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
    assert ask(endpoint, {}, "GET", "/health", headers)[0] == 200


def test_the_one_model_is_listed(endpoint: Any) -> None:
    status, answer = ask(endpoint, {}, "GET", "/v1/models")
    assert (status, answer["object"], [m["id"] for m in answer["data"]]) == (200, "list", ["llm"])


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b"[]", 400, "not a JSON object"),
        ({}, 400, "prompt must be"),
        ({"prompt": "a", "model": "other"}, 404, "there is no model"),
        ({"prompt": "a", "max_tokens": "many"}, 400, "max_tokens must be int"),
        ({"prompt": "a", "max_tokens": True}, 400, "max_tokens must be int"),
        ({"prompt": "a", "max_tokens": 64}, 400, "more than the context"),
        ({"prompt": [1, 999], "max_tokens": 1}, 400, "outside of"),
        ({"prompt": "a", "n": 2}, 400, "n: only 1"),
        ({"prompt": "a", "stop": ["x"]}, 400, "stop: only null"),
        ({"prompt": "a", "stream_options": 3}, 400, "stream_options"),
    ],
)
def test_a_bad_request_is_refused_in_openais_form(endpoint: Any, body: Any, status: int, words: str) -> None:
    answer = ask(endpoint, body)
    assert answer[0] == status
    assert words in answer[1]["error"]["message"]
    assert answer[1]["error"]["type"] == "invalid_request_error"


def test_other_paths_and_methods_are_refused(endpoint: Any) -> None:
    assert ask(endpoint, {}, "POST", "/v1/chat/completions")[0] == 404
    assert ask(endpoint, {}, "GET", "/v1/completions")[0] == 405


def test_a_failing_engine_ends_a_stream_without_done(endpoint: Any, runner: Stepped) -> None:
    runner.broken_after = 2
    _, parts = ask(endpoint, {"prompt": "a", "max_tokens": 9, "stream": True, "ignore_eos": True})
    assert b"[DONE]" not in b"".join(parts)
    assert b"server_error" in parts[-1]
    status, answer = ask(endpoint, {"prompt": "a", "max_tokens": 9, "ignore_eos": True})
    assert (status, answer["error"]["type"]) == (500, "server_error")


def test_a_request_whose_client_went_away_is_cancelled(endpoint: Any, runner: Stepped) -> None:
    async def run() -> None:
        body = json.dumps({"prompt": "a", "max_tokens": 9, "stream": True, "ignore_eos": True}).encode()
        reply = await endpoint.handle("POST", "/v1/completions", SECRET, body)
        await reply.stream.__anext__()
        await reply.stream.aclose()

    asyncio.run(run())
    assert len(runner.cancelled) == 1


def test_a_character_of_several_bytes_comes_with_its_last_byte(llm: Any) -> None:
    text = llm.protocol.Text()
    assert [text.add([byte], False) for byte in "aß".encode()] == ["a", "", "ß"]
    assert text.add([*"ßa".encode(), llm.model.END, 0xC3], True) == "ßa�"


def test_the_token_is_made_of_the_labs_own(llm: Any, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("RAYLAB_LLM_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    with pytest.raises(RuntimeError, match="no token"):
        llm.endpoint.bearer_token()
    (tmp_path / "ray.token").write_text("abc\n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "ray.token"))
    made = llm.endpoint.bearer_token()
    assert len(made) == 64
    assert "abc" not in made
    assert made == llm.endpoint.bearer_token()
    monkeypatch.setenv("RAYLAB_LLM_TOKEN", "mine")
    assert llm.endpoint.bearer_token() == "mine"


async def lines(parts: list[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        for line in part.splitlines(keepends=True):
            yield line


def test_the_client_reads_what_the_endpoint_streams(llm: Any, decoder: Any, endpoint: Any) -> None:
    prompt = llm.client.Prompt("p", tuple(b"abc"))
    body = llm.client.Target("http://x", "llm", "secret", 5).body(prompt)
    _, parts = ask(endpoint, body)
    ticks = iter(range(100, 200))
    answer = asyncio.run(llm.client.receive(lines(parts), prompt, 90.0, lambda: float(next(ticks))))
    assert list(answer.tokens) == expected(llm, decoder, "abc", 5)
    assert answer.timing.parts == (10.0, 11.0, 12.0, 13.0, 14.0)
    assert (answer.timing.input_tokens, answer.timing.output_tokens) == (3, 5)
    assert answer.checkpoint == SHA256


def test_a_stream_whose_parts_are_of_two_checkpoints_is_no_answer(llm: Any, endpoint: Any) -> None:
    prompt = llm.client.Prompt("p", tuple(b"abc"))
    _, parts = ask(endpoint, llm.client.Target("http://x", "llm", "secret", 5).body(prompt))
    parts[2] = parts[2].replace(SHA256.encode(), b"another")
    with pytest.raises(llm.client.LostError, match="several checkpoints"):
        asyncio.run(llm.client.receive(lines(parts), prompt, 0.0, lambda: 1.0))


class Http:
    """A session of aiohttp whose endpoint streams these parts."""

    def __init__(self, parts: list[bytes]) -> None:
        self.status, self.content = 200, lines(parts)

    def post(self, url: str, **_: Any) -> Http:
        return self

    async def __aenter__(self) -> Http:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("wanted", "named", "refused"),
    [(SHA256, SHA256, False), ("", SHA256, False), (SHA256, "", False), ("other", SHA256, True)],
)
def test_an_answer_of_another_checkpoint_is_refused(
    llm: Any, endpoint: Any, wanted: str, named: str, refused: bool
) -> None:
    target = llm.client.Target("http://x", "llm", "secret", 5, wanted)
    prompt = llm.client.Prompt("p", tuple(b"abc"))
    _, parts = ask(endpoint, target.body(prompt))
    http = Http([part.replace(SHA256.encode(), named.encode()) for part in parts])
    asked = llm.client.asking(http, target, lambda: 1.0)(prompt, 0.0)
    if refused:
        with pytest.raises(llm.client.RefusedError, match="answers with the checkpoint abab"):
            asyncio.run(asked)
    else:
        assert asyncio.run(asked).checkpoint == named


def test_a_dead_engine_is_told_by_health_and_nobody_waits_for_it(
    llm: Any, endpoint: Any, runner: Stepped, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(endpoint, b"", "GET", "/health") == (200, {"status": "ok"})
    runner.failure = "the engine has failed: out of memory"

    def submit(request: Any, on_token: Any) -> None:
        raise RuntimeError(runner.failure)

    monkeypatch.setattr(runner, "submit", submit)
    assert ask(endpoint, b"", "GET", "/health") == (503, {"status": runner.failure})
    status, document = ask(endpoint, {"prompt": "abc"})
    assert (status, document["error"]["message"]) == (503, runner.failure)


class Broken:
    """An engine that fails at its first step, while `before` is done to its loop."""

    busy = True

    def __init__(self) -> None:
        self.added: list[str] = []
        self.before: Callable[[], None] = lambda: None

    def add(self, request: Any) -> None:
        self.added.append(request.id)

    def step(self) -> list[Any]:
        if not self.added:
            return []
        self.before()
        raise MemoryError("no room")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_whoever_asks_while_the_engine_fails_is_told_and_later_ones_are_refused(llm: Any) -> None:
    engine, notified = Broken(), queue.Queue[str]()
    loop = llm.endpoint.Loop(engine)

    def asked(name: str) -> None:
        request = llm.engine.Request(name, (1,), 2)
        loop.submit(request, lambda token: notified.put(name) if token is None else None)

    engine.before = lambda: asked("late")
    asked("early")
    assert {notified.get(timeout=60), notified.get(timeout=60)} == {"early", "late"}
    loop._thread.join(timeout=60)  # its error is reported when it ends
    assert engine.added == ["early"]
    assert "no room" in loop.failure
    with pytest.raises(RuntimeError, match="no room"):
        asked("after")
    loop.cancel("early")


@pytest.mark.parametrize("kept", [0, 1, 3, 6])
def test_a_stream_without_its_end_is_no_answer(llm: Any, endpoint: Any, kept: int) -> None:
    prompt = llm.client.Prompt("p", tuple(b"abc"))
    _, parts = ask(endpoint, llm.client.Target("http://x", "llm", "secret", 5).body(prompt))
    with pytest.raises(llm.client.LostError):
        asyncio.run(llm.client.receive(lines(parts[:kept]), prompt, 0.0, lambda: 1.0))


def test_a_stream_of_vllm_is_read_alike(llm: Any) -> None:
    """vLLM's parts may have several tokens, an empty text, and comments between them."""
    part = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "llm"}
    documents = [
        {
            **part,
            "choices": [{"index": 0, "text": "", "token_ids": [5, 6], "finish_reason": None}],
            "usage": None,
        },
        {**part, "choices": [{"index": 0, "text": "", "token_ids": [7], "finish_reason": "length"}]},
        {**part, "choices": [], "usage": {"prompt_tokens": 2, "total_tokens": 5, "completion_tokens": 3}},
    ]
    stream = [f"data: {json.dumps(d)}\n\n".encode() for d in documents]
    prompt = llm.client.Prompt("p", (1, 2))
    stream = [b": ping\n\n", *stream, b"data: [DONE]\n\n"]
    answer = asyncio.run(llm.client.receive(lines(stream), prompt, 0.0, lambda: 1.0))
    assert (answer.tokens, answer.timing.output_tokens, len(answer.timing.parts)) == ((5, 6, 7), 3, 2)


def test_threads_of_a_replica_sleep_while_they_wait_and_a_single_one_forks_as_any_other(llm: Any) -> None:
    assert llm.serve.environment(1) == {}, "a variable read at a start keeps an actor from being forked"
    assert 0 < int(llm.serve.environment(2)["env_vars"]["GOMP_SPINCOUNT"]) < 10_000
