"""The recipe `llm-batch`: every prompt is answered once, whatever is lost on the way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs

from lab.api.base import parse, plain
from lab.api.inference import BatchEvidence
from lab.flows.inference import LOST
from lab.flows.inference import receipt as inference

SHA256 = "ab" * 32
"""Of a checkpoint."""


class Server:
    """Stands in for an endpoint: each attempt fails or succeeds as a list says, by the prompt's id."""

    def __init__(self, llm: Any, fails: Callable[[str, int], bool]) -> None:
        self.llm, self.fails, self.asked = llm, fails, dict[str, int]()
        self.now, self.most, self.open = 0.0, 0, 0

    async def ask(self, prompt: Any, sent_at: float) -> Any:
        self.asked[prompt.id] = self.asked.get(prompt.id, 0) + 1
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)  # the others have their turn
        self.open -= 1
        self.now += 1
        if self.fails(prompt.id, self.asked[prompt.id]):
            raise self.llm.client.LostError("the node is gone")
        timing = self.llm.timing.Timing(prompt.id, sent_at, (self.now - sent_at,), len(prompt.tokens), 2)
        return self.llm.client.Answer(prompt.id, (prompt.tokens[0], 7), timing)

    async def pause(self, seconds: float) -> None:
        self.now += seconds


def run(llm: Any, server: Server, prompts: Any, in_flight: int = 4, give_up: float = 1e9) -> Any:
    answers: list[Any] = []
    failures: list[Any] = []

    async def take(answer: Any) -> None:
        answers.append(answer)

    given_up = asyncio.run(
        llm.client.answer_all(
            prompts, server.ask, in_flight, give_up, take, failures.append, lambda: server.now, server.pause
        )
    )
    return answers, failures, given_up


def test_every_prompt_is_answered_once_whatever_attempts_are_lost(llm: Any) -> None:
    prompts = llm.client.random_prompts(40, 5, seed=2)
    for seed in range(20):
        draw = random.Random(seed)
        answers, failures, given_up = run(llm, Server(llm, lambda *_, d=draw: d.random() < 0.4), prompts)
        assert sorted(a.id for a in answers) == [p.id for p in prompts]
        assert len(failures) == sum(a.timing.attempts - 1 for a in answers) > 0
        assert given_up == []


def test_no_more_prompts_are_in_flight_than_asked(llm: Any) -> None:
    server = Server(llm, lambda *_: False)
    run(llm, server, llm.client.random_prompts(30, 5), in_flight=7)
    assert server.most == 7


def test_the_time_of_a_prompt_that_was_sent_again_counts_from_its_first_sending(llm: Any) -> None:
    prompts = llm.client.random_prompts(1, 5)
    server = Server(llm, lambda _, attempt: attempt < 4)
    (answer,), failures, _ = run(llm, server, prompts)
    assert answer.timing.attempts == 4
    assert len(failures) == 3
    assert answer.timing.ttft == pytest.approx(server.now)
    assert answer.timing.ttft == pytest.approx(4 + 0.1 + 0.2 + 0.4)


def test_a_prompt_that_never_succeeds_is_given_up_and_the_others_are_answered(llm: Any) -> None:
    prompts = llm.client.random_prompts(6, 5)
    answers, _, given_up = run(
        llm, Server(llm, lambda name, _: name == prompts[2].id), prompts, 2, give_up=60
    )
    assert given_up == [prompts[2].id]
    assert len(answers) == 5


def test_a_request_that_the_server_refuses_ends_the_batch(llm: Any) -> None:
    server = Server(llm, lambda *_: False)

    async def refused(prompt: Any, sent_at: float) -> Any:
        raise llm.client.RefusedError("HTTP 401")

    server.ask = refused  # type: ignore[method-assign]
    with pytest.raises(llm.client.RefusedError):
        run(llm, server, llm.client.random_prompts(6, 5))


def test_prompts_of_a_seed_are_always_the_same(llm: Any) -> None:
    made = llm.client.random_prompts
    assert made(9, 128, seed=3) == made(9, 128, seed=3) != made(9, 128, seed=4)
    assert {len(p.tokens) for p in made(9, 128)} == {128}


@pytest.fixture
def kept(llm: Any, tmp_path: Any) -> Any:
    return llm.answers.Kept(str(tmp_path), "batches/one", fs.LocalFileSystem())


@pytest.mark.parametrize(("more", "region"), [("", ""), ("?region=eu-west-1", "eu-west-1")])
def test_an_answer_goes_into_s3_by_one_request_whatever_else_its_uri_asks_for(
    llm: Any, monkeypatch: pytest.MonkeyPatch, more: str, region: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # else Arrow asks where the bucket is
    kept = llm.answers.Kept(f"s3://ray/a{more}", "batches/one")
    _, (options,) = kept._fs.__reduce__()
    assert (options["allow_delayed_open"], options["region"]) == (True, region)
    assert kept._folder == "ray/a/batches/one"


def answer(llm: Any, name: str) -> Any:
    return llm.client.Answer(name, (1, 2), llm.timing.Timing(name, 5.0, (0.1, 0.2), 3, 2, 2), SHA256)


def test_kept_answers_are_found_again_and_one_that_was_given_twice_is_seen(llm: Any, kept: Any) -> None:
    assert kept.ids() == []
    for name in ("b", "a", "b"):
        kept.keep(answer(llm, name), "first")
    assert kept.ids() == ["a", "b", "b"]
    row = kept.all()[0]
    assert row["sha256"] == llm.client.digest((1, 2)) == answer(llm, "a").sha256
    assert (row["session"], row["parts"], row["attempts"]) == ("first", [0.1, 0.2], 2)


def test_a_batch_goes_on_only_with_the_settings_it_began_with(kept: Any) -> None:
    kept.begin({"seed": 1, "prompts": 3})
    kept.begin({"seed": 1, "prompts": 3})
    with pytest.raises(ValueError, match="seed was 1, is 2"):
        kept.begin({"seed": 2, "prompts": 3})


def test_what_is_checked_is_drawn_over_the_whole_batch_and_half_of_it_was_sent_again(llm: Any) -> None:
    prompts = llm.client.random_prompts(400, 5)
    again = {p.id for p in prompts[100:150]}
    kept = [{"id": p.id, "attempts": 2 if p.id in again else 1} for p in prompts[1:]]
    seen: set[str] = set()
    for seed in range(40):
        ids = [p.id for p in llm.batch.chosen(prompts, kept, 16, random.Random(seed))]
        assert len(set(ids)) == 16
        assert len(again & set(ids)) >= 8
        seen |= set(ids) - again
    thirds = [{p.id for p in prompts[first : first + 133]} & seen for first in (1, 134, 267)]
    assert min(len(third) for third in thirds) > 40
    assert prompts[0].id not in seen, "it has no answer"


def test_no_more_is_checked_than_there_is(llm: Any) -> None:
    prompts = llm.client.random_prompts(9, 5)
    kept = [{"id": p.id, "attempts": 2} for p in prompts[1:]]
    for count, expected in ((99, 8), (3, 3), (0, 0)):
        assert len(llm.batch.chosen(prompts, kept, count, random.Random(1))) == expected


def test_the_evidence_is_of_the_form_that_labctl_reads(llm: Any, kept: Any) -> None:
    prompts = llm.client.random_prompts(2, 3)
    session = llm.batch.Session(kept, 2)
    for prompt in prompts:
        asyncio.run(session.take(answer(llm, prompt.id)))
    session.fail(llm.client.Failure(prompts[0].id, 1, 6.0, "the node is gone"))
    made = llm.batch.evidence(
        kept.all(), prompts, session, {"n1": 7.0}, {prompts[0].id: answer(llm, "a").sha256}, 2.0,
        {"output_tokens": 2, "checkpoint_sha256": SHA256}, {},
    )  # fmt: skip
    made = {**made, "job": "j", "batch": "b"}
    read = parse(BatchEvidence, made, "it")
    assert plain(read) == made
    assert inference.judge(read).verdict.value == "recovered"
    assert f"{llm.batch.EVIDENCE}/" == f"{inference.PREFIX}/"


def test_limits_of_goodput_are_read_or_refused(llm: Any) -> None:
    assert llm.measure.limits("ttft:500,tpot:50.5") == {"ttft": 500.0, "tpot": 50.5}
    for wrong in ("itl:3", "ttft", "ttft:fast"):
        with pytest.raises(SystemExit, match="--goodput"):
            llm.measure.limits(wrong)


@pytest.fixture
def args() -> SimpleNamespace:
    """A batch whose engines compute in bf16."""
    return SimpleNamespace(
        slots=2, context=32, threads=1, dtype="bfloat16", gpus=0, output_tokens=4,
        url="", model="m", part_seconds=1, in_flight=2, give_up=60,
    )  # fmt: skip


@pytest.fixture
def settings(llm: Any, tmp_path: Any, args: SimpleNamespace) -> Any:
    """Of an engine with a small model: a checkpoint in a folder."""
    import torch

    torch.manual_seed(1)
    config = llm.model.ModelConfig(16, 1, 16, 2, 1, context=48)
    llm.model.save_model(config, llm.model.Decoder(config).state_dict(), tmp_path)
    return llm.serve.EngineSettings.from_args(str(tmp_path), args)


def test_ray_data_computes_what_the_endpoint_would(llm: Any, settings: Any) -> None:
    prompts = llm.client.random_prompts(5, 6)
    actor = llm.batch.Answering(settings, 4)
    columns = actor({"id": [p.id for p in prompts], "tokens": [list(p.tokens) for p in prompts]})
    assert columns["id"] == [p.id for p in prompts]
    expected = llm.batch.reference(settings, prompts, 4)
    assert set(columns["checkpoint"]) == {llm.checkpoint.sha256_of(Path(settings.checkpoint))}
    assert {
        n: llm.client.digest(t) for n, t in zip(columns["id"], columns["answer"], strict=True)
    } == expected


@pytest.mark.parametrize(
    ("asked", "share", "lab", "device", "dtype"),
    [
        ("auto", 0, "nvidia", "cpu", "float32"),
        ("auto", 1, "nvidia", "cuda", "bfloat16"),
        ("auto", 1, "simulated", "cpu", "float32"),
        ("bfloat16", 0, "nvidia", "cpu", "bfloat16"),
        ("float32", 0.5, "nvidia", "cuda", "float32"),
    ],
)
def test_an_engine_takes_a_gpu_that_it_has_a_share_of_and_the_format_that_was_asked_for(
    llm: Any,
    settings: Any,
    args: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    share: float,
    lab: str,
    device: str,
    dtype: str,
) -> None:
    """Every process sees a GPU here, as Ray lets those without a share of one."""
    import torch

    placed: list[Any] = []

    def place(model: Any, *where: Any) -> Any:
        placed.append(where)
        return model

    monkeypatch.setenv("RAYLAB_GPU", lab)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(llm.model.Decoder, "to", place)
    args.dtype, args.gpus = asked, share
    engine, _ = llm.serve.EngineSettings.from_args(settings.checkpoint, args).load()
    assert placed == [(device, getattr(torch, dtype))]
    assert (engine.places, engine.running) == (32, 0)


def test_a_batch_is_not_gone_on_with_by_another_engine(llm: Any, args: SimpleNamespace) -> None:
    kinds = [
        args,
        SimpleNamespace(**{**vars(args), "dtype": "float32"}),
        SimpleNamespace(**{**vars(args), "gpus": 1}),
    ]
    assert [llm.batch.engine_of(kind) for kind in kinds] == [
        "bfloat16 on CPUs", "float32 on CPUs", "bfloat16 on GPUs"
    ]  # fmt: skip


def test_a_lost_attempt_is_logged_in_the_words_that_job_lose_node_looks_for(llm: Any, capsys: Any) -> None:
    llm.batch.show(llm.client.Failure("p7", 2, 1.0, "the stream ended too early"))
    assert len(LOST.findall(capsys.readouterr().out)) == 1


@pytest.fixture
def ray_tasks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ray's tasks: `asked` for what, and `fails` with what; else they are run at once, here."""
    import ray

    tasks = SimpleNamespace(asked=[], fails=None)

    def remote(**resources: Any) -> Any:
        return lambda function: SimpleNamespace(remote=lambda *args: (resources, function, args))

    def get(task: Any, timeout: float) -> Any:
        resources, function, args = task
        tasks.asked.append({**resources, "timeout": timeout})
        if tasks.fails:
            raise tasks.fails
        return function(*args)

    monkeypatch.setattr(ray, "remote", remote)
    monkeypatch.setattr(ray, "get", get)
    return tasks


def test_answers_are_computed_once_more_in_the_job_where_replicas_have_no_gpus(
    llm: Any, settings: Any, args: SimpleNamespace, ray_tasks: Any
) -> None:
    prompts = llm.client.random_prompts(2, 6)
    digests = llm.batch.once_more(settings.checkpoint, "", prompts, args)
    assert digests == llm.batch.reference(settings, prompts, 4)
    assert ray_tasks.asked == []


def test_answers_are_computed_once_more_on_gpus_where_replicas_have_them(
    llm: Any, settings: Any, args: SimpleNamespace, ray_tasks: Any
) -> None:
    args.gpus = 0.5
    prompts = llm.client.random_prompts(2, 6)
    digests = llm.batch.once_more(settings.checkpoint, "", prompts, args)
    assert digests == llm.batch.reference(settings, prompts, 4)
    assert llm.batch.once_more(settings.checkpoint, "", [], args) == {}
    assert ray_tasks.asked == [{"num_cpus": 0, "num_gpus": 0.5, "timeout": llm.batch.CHECK_SECONDS}]


@pytest.mark.parametrize(
    ("error", "said"),
    [("GetTimeoutError", "not recomputed in 600 s: no GPU is free"),
     ("OutOfMemoryError", "not recomputed: the node has no memory")],
)  # fmt: skip
def test_a_check_that_fails_leaves_the_evidence_of_the_batch(
    llm: Any, args: SimpleNamespace, ray_tasks: Any, capsys: Any, error: str, said: str
) -> None:
    import ray

    args.gpus, ray_tasks.fails = 1, getattr(ray.exceptions, error)("the node has no memory")
    assert llm.batch.once_more("s3://x", SHA256, llm.client.random_prompts(2, 6), args) == {}
    assert said in capsys.readouterr().out


def test_a_foreign_endpoint_is_asked_once_more(
    llm: Any, args: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    prompts = llm.client.random_prompts(3, 6)
    server = Server(llm, lambda _, attempt: attempt == 1)
    targets: list[Any] = []

    def asking(http: Any, target: Any, now: Any) -> Any:
        targets.append(target)
        return server.ask

    monkeypatch.setenv(llm.endpoint.TOKEN_VARIABLE, "secret")
    monkeypatch.setattr(llm.client, "asking", asking)
    monkeypatch.setattr(llm.client, "FIRST_PAUSE", 0.0)
    args.url = "http://127.0.0.1:9/"
    digests = llm.batch.once_more("s3://x", SHA256, prompts, args)
    assert digests == {p.id: llm.client.digest((p.tokens[0], 7)) for p in prompts}
    assert targets == [llm.client.Target("http://127.0.0.1:9", "m", "secret", 4, SHA256)]
    assert f"{prompts[0].id}: attempt 1 lost: the node is gone" in capsys.readouterr().out


def test_answers_that_an_endpoint_did_not_give_again_are_counted(
    llm: Any, args: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    async def ask_all(url: str, prompts: Any, args: Any, wanted: str, take: Any, fail: Any) -> list[str]:
        await take(answer(llm, prompts[0].id))
        return [p.id for p in prompts[1:]]

    monkeypatch.setattr(llm.batch, "ask_all", ask_all)
    args.url, prompts = "http://127.0.0.1:9", llm.client.random_prompts(3, 6)
    assert list(llm.batch.once_more("s3://x", SHA256, prompts, args)) == [prompts[0].id]
    assert "2 of 3 answers could not be recomputed" in capsys.readouterr().out


def test_an_endpoint_that_refuses_the_check_is_named(
    llm: Any, args: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    async def refused(prompt: Any, sent_at: float) -> Any:
        raise llm.client.RefusedError("http://127.0.0.1:9: HTTP 401")

    monkeypatch.setenv(llm.endpoint.TOKEN_VARIABLE, "secret")
    monkeypatch.setattr(llm.client, "asking", lambda *_: refused)
    args.url = "http://127.0.0.1:9"
    assert llm.batch.once_more("s3://x", SHA256, llm.client.random_prompts(2, 6), args) == {}
    assert "not recomputed: http://127.0.0.1:9: HTTP 401" in capsys.readouterr().out


def test_ray_data_takes_no_endpoint(llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["batch.py", "--from", "x", "--through", "data", "--url", "http://a"])
    with pytest.raises(SystemExit, match="--url: Ray Data"):
        llm.batch.main()


def test_a_picture_of_a_run_is_drawn(llm: Any, tmp_path: Any) -> None:
    requests = [
        {"sent_at": 0.1 * n, "parts": [0.2, 0.3, 0.3 + 0.01 * n], "attempts": 1 + n % 2} for n in range(9)
    ]
    llm.picture.draw({"requests": requests, "lost_at": [0.4]}, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
