"""The recipe `llm`: its endpoint on Ray Serve, and the client that asks it."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lab.ext.course.inference import REPLICA

SECRET = "Bearer secret"


@pytest.fixture(scope="module")
def args(llm: Any, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Settings with a small model: a checkpoint in a folder."""
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(3)
    config = llm.model.ModelConfig(width=16, layers=1, inner=16, heads=2, kv_heads=1, context=64)
    llm.model.save_model(config, llm.model.Decoder(config).state_dict(), folder)
    return SimpleNamespace(checkpoint=str(folder), slots=2, context=64, threads=1, dtype="auto", gpus=0)


@pytest.fixture(scope="module")
def sha256(llm: Any, args: SimpleNamespace) -> str:
    return str(llm.checkpoint.sha256_of(Path(args.checkpoint)))


@pytest.fixture(autouse=True)
def slow_engine(llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part has one byte, as where a byte takes longer than the least time between two parts."""
    monkeypatch.setattr(llm.serve, "PART_SECONDS", 0.0)


class Reply:
    """An answer over HTTP: status, document, or the lines of a stream."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self.body = status, body

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def parts(self) -> list[Any]:
        events = [event.removeprefix("data: ") for event in self.body.decode().split("\n\n")[:-1]]
        assert events.pop() == "[DONE]"
        return [json.loads(event) for event in events]


async def asked(
    replica: Any, body: Any, method: str = "POST", path: str = "/v1/completions", header: str = SECRET
) -> Reply:
    from starlette.requests import Request

    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def receive() -> Any:
        return {"type": "http.request", "body": content}

    scope = {"type": "http", "method": method, "path": f"/llm-j{path}", "root_path": "/llm-j",
             "query_string": b"", "headers": [(b"authorization", header.encode())]}  # fmt: skip
    response = await replica(Request(scope, receive))
    if hasattr(response, "body_iterator"):
        chunks = [part if isinstance(part, bytes) else part.encode() async for part in response.body_iterator]
        return Reply(response.status_code, b"".join(chunks))
    return Reply(response.status_code, response.body)


@pytest.fixture
def ask(llm: Any, args: SimpleNamespace) -> Callable[..., Any]:
    """Asks a replica, with the arguments of `asked`; with several bodies at the same time."""

    def run(*bodies: Any, **how: Any) -> Any:
        async def all_of_them() -> list[Reply]:
            replica = llm.serve.Replica(args, "secret")
            return list(await asyncio.gather(*(asked(replica, body, **how) for body in bodies)))

        replies = asyncio.run(all_of_them())
        return replies if len(replies) > 1 else replies[0]

    return run


def greedy(prompt: Any, count: int, **more: Any) -> dict[str, Any]:
    return {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True, **more}  # fmt: skip


def expected(llm: Any, args: SimpleNamespace, body: dict[str, Any]) -> list[int]:
    engine, _ = llm.inference.load(args)
    request = llm.inference.Request.model_validate_json(json.dumps(body))
    return [step[0].byte for step in engine.decode([request])]


def test_a_completion_has_openais_form(llm: Any, args: SimpleNamespace, sha256: str, ask: Any) -> None:
    reply = ask(greedy("abc", 4))
    tokens = expected(llm, args, greedy("abc", 4))
    assert reply.status == 200
    assert (reply.document["object"], reply.document["model"]) == ("text_completion", "llm")
    assert reply.document["system_fingerprint"] == sha256
    choice = reply.document["choices"][0]
    assert (choice["finish_reason"], choice["token_ids"]) == ("length", tokens)
    assert choice["text"] == bytes(t for t in tokens if t).decode(errors="replace")
    assert reply.document["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def test_a_stream_has_a_part_for_each_byte_of_a_slow_engine(
    llm: Any, args: SimpleNamespace, ask: Any
) -> None:
    body = greedy(list(b"abc"), 9, stream=True)
    parts = ask(body).parts
    choices = [part["choices"][0] for part in parts]
    tokens = expected(llm, args, body)
    assert [choice["token_ids"] for choice in choices] == [[token] for token in tokens]
    assert [choice["finish_reason"] for choice in choices] == [None] * 8 + ["length"]
    assert len({part["id"] for part in parts}) == 1
    assert "".join(c["text"] for c in choices) == bytes(t for t in tokens if t).decode(errors="replace")


def test_a_fast_engine_gives_the_first_byte_at_once_and_the_others_together(
    llm: Any, args: SimpleNamespace, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm.serve, "PART_SECONDS", 60.0)

    async def no_wait(seconds: float) -> None:
        pass

    monkeypatch.setattr(llm.serve.asyncio, "sleep", no_wait)
    body = greedy("abc", 9, stream=True)
    sizes = [len(part["choices"][0]["token_ids"]) for part in ask(body).parts]
    assert sizes == [1, 8]


def test_requests_that_come_together_are_answered_in_batches_each_as_if_it_were_alone(
    llm: Any, args: SimpleNamespace, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    decode = llm.inference.Engine.decode

    def noting(engine: Any, requests: Any) -> Iterator[Any]:
        sizes.append(len(requests))
        return decode(engine, requests)  # type: ignore[no-any-return]

    monkeypatch.setattr(llm.inference.Engine, "decode", noting)
    bodies = [greedy("abc" * (n + 1), 5 + 4 * n, stream=n % 2 == 0) for n in range(5)]
    replies = ask(*bodies)
    assert sizes == [2, 2, 1]
    for body, reply in zip(bodies, replies, strict=True):
        documents = reply.parts if body["stream"] else [reply.document]
        ids = [token for d in documents for token in d["choices"][0]["token_ids"]]
        assert ids == expected(llm, args, body)


def test_without_return_token_ids_there_is_text_alone(ask: Any) -> None:
    (first, *_) = ask({"prompt": "a", "max_tokens": 2, "stream": True}).parts
    assert "token_ids" not in first["choices"][0]


@pytest.mark.parametrize("header", ["", "Bearer other", "secret"])
def test_only_who_has_the_token_is_answered(ask: Any, header: str) -> None:
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/completions"), ("GET", "/elsewhere")):
        reply = ask({"prompt": "a"}, method=method, path=path, header=header)
        assert (reply.status, reply.document["error"]["type"]) == (401, "invalid_request_error")
    assert ask({}, method="GET", path="/health", header=header).document == {"status": "ok"}


def test_the_one_model_is_listed(ask: Any) -> None:
    reply = ask({}, method="GET", path="/v1/models")
    assert (reply.status, [m["id"] for m in reply.document["data"]]) == (200, ["llm"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "Invalid JSON"),
        (b"[]", "an object"),
        ({}, "prompt"),
        ({"prompt": "a", "model": "other"}, "'llm'"),
        ({"prompt": "a", "max_tokens": "many"}, "max_tokens"),
        ({"prompt": "a", "max_tokens": 64}, "1 to 64 bytes"),
        ({"prompt": [1, 999], "max_tokens": 1}, "255"),
        ({"prompt": "a", "n": 2}, "n"),
        ({"prompt": "a", "stop": ["x"]}, "stop"),
        ({"prompt": "a", "temperature": -1}, "temperature"),
    ],
)
def test_a_bad_request_is_refused_in_openais_form(ask: Any, body: Any, words: str) -> None:
    reply = ask(body)
    assert reply.status == 400
    assert words in reply.document["error"]["message"]


def test_other_paths_and_methods_are_refused(ask: Any) -> None:
    assert ask({}, path="/v1/chat/completions").status == 404
    assert ask({}, method="GET").status == 404


def test_a_character_of_several_bytes_comes_with_its_last_byte(llm: Any, args: SimpleNamespace) -> None:
    async def texts() -> list[str]:
        completion = llm.serve.Replica(args, "secret")._completions(llm.inference.Request(prompt=b"a"))
        parts = [[byte] for byte in "aß".encode()] + [[*"ßa".encode(), llm.model.END, 0xC3]]
        ends = [None, None, None, "length"]
        return [
            completion([llm.inference.Token(byte, finish) for byte in part])["choices"][0]["text"]
            for part, finish in zip(parts, ends, strict=True)
        ]

    assert asyncio.run(texts()) == ["a", "", "ß", "ßa�"]


def test_ray_serve_hears_of_an_engine_that_has_failed(
    llm: Any, args: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(engine: Any, requests: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(llm.inference.Engine, "decode", broken)

    async def run() -> None:
        replica = llm.serve.Replica(args, "secret")
        await replica.check_health()
        request = asyncio.ensure_future(asked(replica, greedy("a", 2)))
        await asyncio.wait([replica._work])
        with pytest.raises(MemoryError, match="no room"):
            await replica.check_health()
        with pytest.raises(MemoryError, match="no room"):
            await asked(replica, {}, method="GET", path="/health")
        request.cancel()

    asyncio.run(run())


def test_what_nobody_waits_for_any_more_is_not_computed(
    llm: Any, args: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of one that is being answered, and of two that wait, go away; then somebody else comes."""
    steps: list[list[int]] = []
    decode = llm.inference.Engine.decode

    def noting(engine: Any, requests: Any) -> Iterator[Any]:
        for step in decode(engine, requests):
            steps.append([len(request.prompt) for request in requests])
            yield step

    monkeypatch.setattr(llm.inference.Engine, "decode", noting)

    async def run() -> Reply:
        replica = llm.serve.Replica(args, "secret")
        clients = [asyncio.ensure_future(asked(replica, greedy("abc" * 4, 50))) for _ in range(4)]
        while not steps:
            await asyncio.sleep(0.001)
        for client in clients:
            client.cancel()
        return await asyncio.wait_for(asked(replica, greedy("a", 2)), 20)

    assert len(asyncio.run(run()).document["choices"][0]["token_ids"]) == 2
    assert steps[-2:] == [[1], [1]]
    assert [12, 12] in steps
    assert len([step for step in steps if step == [12, 12]]) < 50


def test_the_token_is_made_of_the_labs_own(llm: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("RAYLAB_LLM_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    with pytest.raises(KeyError, match="RAY_AUTH_TOKEN_PATH"):
        llm.serve.bearer_token()
    (tmp_path / "ray.token").write_text("abc\n")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "ray.token"))
    made = llm.serve.bearer_token()
    assert len(made) == 64
    assert "abc" not in made
    assert made == llm.serve.bearer_token()
    monkeypatch.setenv("RAYLAB_LLM_TOKEN", "mine")
    assert llm.serve.bearer_token() == "mine"


async def lines(content: bytes) -> AsyncIterator[bytes]:
    for line in content.splitlines(keepends=True):
        yield line


def test_the_client_reads_what_the_endpoint_streams(
    llm: Any, args: SimpleNamespace, sha256: str, ask: Any
) -> None:
    body = greedy("abc", 5, stream=True)
    ticks = iter(range(100, 200))
    answer = asyncio.run(llm.batch.receive(lines(ask(body).body), 90.0, lambda: float(next(ticks))))
    assert answer["tokens"] == expected(llm, args, body)
    assert (answer["ttft"], answer["e2e"], answer["output_tokens"]) == (10.0, 14.0, 5)
    assert answer["checkpoint_sha256"] == sha256


@pytest.mark.parametrize("wrong", ["cut", "error", "two checkpoints"])
def test_a_stream_that_is_not_whole_is_no_answer(llm: Any, ask: Any, sha256: str, wrong: str) -> None:
    content = ask(greedy("abc", 5, stream=True)).body
    content = {
        "cut": content.replace(b"data: [DONE]", b""),
        "error": b'data: {"error": {"message": "no room"}}\n\n' + content,
        "two checkpoints": content.replace(sha256.encode(), b"another", 1),
    }[wrong]
    with pytest.raises(llm.batch.LostError):
        asyncio.run(llm.batch.receive(lines(content), 0.0, lambda: 1.0))


class Http:
    """A session of aiohttp whose endpoint says this."""

    def __init__(self, content: bytes, status: int = 200) -> None:
        self.status, self.content = status, lines(content)

    def post(self, url: str, **_: Any) -> Http:
        return self

    async def text(self) -> str:
        return "what is wrong"

    async def __aenter__(self) -> Http:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("name", ["same", "", "other"])
def test_an_answer_of_another_checkpoint_is_refused(
    llm: Any, ask: Any, sha256: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYLAB_LLM_TOKEN", "secret")
    content = ask(greedy("abc", 5, stream=True)).body.replace(sha256.encode(), name.encode())
    attempt = llm.batch.asking(Http(content), "http://x", 5, "same")(("p", [1, 2, 3]), 0.0)
    if name == "other":
        with pytest.raises(llm.batch.RefusedError, match="checkpoint other"):
            asyncio.run(attempt)
    else:
        answer = asyncio.run(attempt)
        assert (answer["id"], answer["checkpoint_sha256"]) == ("p", name)


@pytest.mark.parametrize(("status", "error"), [(401, "RefusedError"), (503, "LostError"), (500, "LostError")])
def test_what_will_not_succeed_is_told_from_what_may(
    llm: Any, status: int, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYLAB_LLM_TOKEN", "secret")
    attempt = llm.batch.asking(Http(b"", status), "http://x", 5, "")(("p", [1]), 0.0)
    with pytest.raises(getattr(llm.batch, error), match=f"HTTP {status}"):
        asyncio.run(attempt)


@pytest.fixture
def job(llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the driver 01000000 of the job raysubmit_a."""
    config = SimpleNamespace(metadata={"job_submission_id": "raysubmit_a"})
    worker = SimpleNamespace(core_worker=SimpleNamespace(get_job_config=lambda: config))
    monkeypatch.setattr(llm.serve.ray._private.worker, "global_worker", worker)
    context = SimpleNamespace(get_job_id=lambda: "01000000")
    monkeypatch.setattr(llm.serve.ray, "get_runtime_context", lambda: context)


@pytest.mark.usefixtures("job")
def test_an_application_has_the_name_of_its_job_by_which_labctl_knows_its_replicas(llm: Any) -> None:
    assert llm.serve.application() == "llm-raysubmit_a-01000000"
    deployment = f"ServeReplica:{llm.serve.application()}:engine"
    assert deployment.startswith(REPLICA.format(job="raysubmit_a"))
    assert not deployment.startswith(REPLICA.format(job="raysubmit"))


def test_an_application_is_stale_once_its_driver_is_gone(llm: Any) -> None:
    names = ["llm-raysubmit_a-01000000", "llm-k-3-02000000", "somebody-elses"]
    assert llm.serve.stale(names, ["01000000"]) == ["llm-k-3-02000000"]
    assert llm.serve.stale(names, ["02000000", "01000000"]) == []


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("fails", [False, True])
def test_ending_the_endpoint_hides_no_error_of_the_job(
    llm: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: bool
) -> None:
    from ray import serve

    ended: list[str] = []
    there: dict[str, object] = {}

    def delete(name: str) -> None:
        ended.append(name)
        if fails or not there:
            raise TimeoutError("60 s")

    monkeypatch.setattr(serve, "status", lambda: SimpleNamespace(applications=there))
    monkeypatch.setattr(serve, "delete", delete)
    llm.serve.stop()
    assert ended == [], "Serve was never started"
    there[llm.serve.application()] = ()
    llm.serve.stop()
    assert ended == [llm.serve.application()]
    assert ("60 s" in capsys.readouterr().out) == fails


def test_a_job_does_not_wait_for_the_end_of_a_stale_application(
    llm: Any, args: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray import serve

    def delete(name: str, _blocking: bool = True) -> None:
        assert (name, _blocking) == ("llm-old-02000000", False)
        raise InterruptedError  # what comes after it is no matter here

    monkeypatch.setattr(llm.serve.ray._private.state.state, "job_table", list)
    monkeypatch.setattr(serve, "status", lambda: SimpleNamespace(applications=["llm-old-02000000"]))
    monkeypatch.setattr(serve, "delete", delete)
    with pytest.raises(InterruptedError):
        llm.serve.start(args)


def test_a_port_that_somebody_listens_on_is_not_taken(llm: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert llm.serve.free_port("127.0.0.1", port) != port
    assert llm.serve.free_port("127.0.0.1", port) == port
    with pytest.raises(SystemExit, match=r"no port of 192\.0\.2\.1"):
        llm.serve.free_port("192.0.2.1", 80)


def test_the_settings_are_the_recipes(llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm.serve.ray, "init", lambda: None)
    monkeypatch.delenv("RAYLAB_STORAGE", raising=False)
    monkeypatch.setattr("sys.argv", ["batch.py", "--from", "s3://ray/run/c", "--in-flight", "3"])
    args = llm.serve.arguments("recipe-batch.json")
    assert (args.checkpoint, args.storage) == ("s3://ray/run/c", "s3://ray")
    assert (args.in_flight, args.slots, args.url) == (3, 16, None)
    monkeypatch.setattr("sys.argv", ["serve.py"])
    with pytest.raises(SystemExit):
        llm.serve.arguments("recipe-serve.json")
