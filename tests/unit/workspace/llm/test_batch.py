"""The recipe `llm-batch`: every prompt is answered once, whatever is lost on the way."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyarrow import fs

from lab.api.base import parse, plain
from lab.ext.course.batch_documents import BatchEvidence
from lab.ext.course.inference import LOST
from lab.ext.course.inference import receipt as inference

SHA256 = "ab" * 32
"""Of a checkpoint."""


class Server:
    """Stands in for an endpoint: each attempt fails or succeeds as a function says, by the prompt's id."""

    def __init__(self, llm: Any, fails: Callable[[str, int], bool]) -> None:
        self.llm, self.fails, self.attempts = llm, fails, dict[str, int]()
        self.most, self.open = 0, 0

    async def ask(self, prompt: Any, sent_at: float) -> Any:
        name, tokens = prompt
        self.attempts[name] = self.attempts.get(name, 0) + 1
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)  # the others have their turn
        self.open -= 1
        if self.fails(name, self.attempts[name]):
            raise self.llm.batch.LostError("the node is gone")
        return {"id": name, "sha256": str(tokens[0]), "sent_at": sent_at}


def run(llm: Any, server: Server, prompts: Any, in_flight: int = 4, give_up: float = 1e9) -> Any:
    answers: list[Any] = []
    failures: list[str] = []

    async def take(answer: Any) -> None:
        answers.append(answer)

    def fail(prompt: str, attempt: int, error: Exception) -> None:
        failures.append(prompt)

    args = SimpleNamespace(in_flight=in_flight, give_up=give_up)
    asyncio.run(llm.batch.answer_all(prompts, server.ask, args, take, fail))
    return answers, failures


@pytest.fixture(autouse=True)
def no_pause(llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm.batch, "PAUSE_SECONDS", 0.0)


def test_every_prompt_is_answered_once_whatever_attempts_are_lost(llm: Any) -> None:
    prompts = llm.batch.random_prompts(40, 5, seed=2)
    for seed in range(20):
        draw = random.Random(seed)
        answers, failures = run(llm, Server(llm, lambda *_, d=draw: d.random() < 0.4), prompts)
        assert sorted(a["id"] for a in answers) == [name for name, _ in prompts]
        assert len(failures) == sum(a["attempts"] - 1 for a in answers) > 0


def test_no_more_prompts_are_in_flight_than_asked(llm: Any) -> None:
    server = Server(llm, lambda *_: False)
    run(llm, server, llm.batch.random_prompts(30, 5), in_flight=7)
    assert server.most == 7


def test_the_time_of_a_prompt_that_was_sent_again_counts_from_its_first_sending(
    llm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(100, 200))
    monkeypatch.setattr(llm.batch.time, "time", lambda: float(next(ticks)))
    (answer,), failures = run(llm, Server(llm, lambda _, n: n < 4), llm.batch.random_prompts(1, 5), 1)
    assert (answer["attempts"], answer["sent_at"], len(failures)) == (4, 100.0, 3)


def test_a_prompt_that_gets_no_answer_for_too_long_is_given_up_and_the_others_go_on(llm: Any) -> None:
    prompts = llm.batch.random_prompts(12, 5)
    server = Server(llm, lambda name, _: name == prompts[2][0])
    answers, failures = run(llm, server, prompts, in_flight=2, give_up=0)
    assert {a["id"] for a in answers} == {name for name, _ in prompts} - {prompts[2][0]}
    assert set(failures) == {prompts[2][0]}


def test_a_request_that_the_server_refuses_ends_the_batch(llm: Any) -> None:
    server = Server(llm, lambda *_: False)

    async def refused(prompt: Any, sent_at: float) -> Any:
        raise llm.batch.RefusedError("HTTP 401")

    server.ask = refused  # type: ignore[method-assign]
    with pytest.raises(llm.batch.RefusedError):
        run(llm, server, llm.batch.random_prompts(6, 5))


def test_prompts_of_a_seed_are_always_the_same(llm: Any) -> None:
    made = llm.batch.random_prompts
    assert made(9, 128, seed=3) == made(9, 128, seed=3) != made(9, 128, seed=4)
    assert {len(tokens) for _, tokens in made(9, 128)} == {128}


@pytest.fixture
def kept(llm: Any, tmp_path: Any) -> Any:
    return llm.batch.Kept(str(tmp_path), "batches/one", fs.LocalFileSystem())


@pytest.mark.parametrize(("more", "region"), [("", ""), ("?region=eu-west-1", "eu-west-1")])
def test_an_answer_goes_into_s3_by_one_request_whatever_else_its_uri_asks_for(
    llm: Any, monkeypatch: pytest.MonkeyPatch, more: str, region: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # else Arrow asks where the bucket is
    kept = llm.batch.Kept(f"s3://ray/a{more}", "batches/one")
    _, (options,) = kept._fs.__reduce__()
    assert (options["allow_delayed_open"], options["region"]) == (True, region)
    assert kept._folder == "ray/a/batches/one"


def test_a_batch_goes_on_only_with_the_settings_it_began_with(kept: Any) -> None:
    assert kept.read("answers") == []
    kept.begin({"seed": 1, "prompts": 3})
    kept.begin({"seed": 1, "prompts": 3})
    with pytest.raises(SystemExit, match="seed was 1"):
        kept.begin({"seed": 2, "prompts": 3})


def answer(name: str, attempts: int = 1, sent_at: float = 5.0, tokens: int = 3) -> dict[str, Any]:
    return {"id": name, "sha256": f"of {name}", "output_tokens": tokens, "session": "s", "sent_at": sent_at,
            "ttft": 0.1, "e2e": 0.5, "attempts": attempts, "checkpoint_sha256": SHA256}  # fmt: skip


def test_what_is_compared_is_drawn_over_the_whole_batch_and_first_from_what_was_sent_again(llm: Any) -> None:
    prompts = llm.batch.random_prompts(400, 5)
    again = {name for name, _ in prompts[100:104]}
    answers = [answer(name, 2 if name in again else 1) for name, _ in prompts]
    seen: set[str] = set()
    for _ in range(60):
        names = [name for name, _ in llm.batch.sample(prompts, answers, 16)]
        assert len(set(names)) == 16
        assert again == set(names[:4])
        seen |= set(names)
    thirds = [{name for name, _ in prompts[first : first + 133]} & seen for first in (1, 134, 267)]
    assert min(len(third) for third in thirds) > 40
    assert len(llm.batch.sample(prompts[:3], answers, 99)) == 3
    assert llm.batch.sample(prompts, answers, 0) == []


def test_figures_are_those_of_the_times(llm: Any) -> None:
    answers = [answer(str(n), sent_at=n // 2, tokens=n + 1) for n in range(20)]
    for n, a in enumerate(answers):
        a["ttft"], a["e2e"] = 0.1 * (n + 1), 0.1 * (n + 1) + 0.02 * n
    figures = llm.batch.figures(answers, 10.0)
    assert (figures["completed"], figures["requests_per_second"]) == (20, 2.0)
    assert figures["output_tokens_per_second"] == 21.0
    ttft = np.asarray([100.0 * (n + 1) for n in range(20)])
    for percent in (50, 95, 99):
        assert figures["ttft_ms"][f"p{percent}"] == pytest.approx(np.percentile(ttft, percent))
        assert figures["tpot_ms"][f"p{percent}"] == pytest.approx(20.0), "of the first, there is none"
    assert figures["ttft_ms"]["max"] == pytest.approx(2000)
    marks = [a["sent_at"] for a in answers]
    assert figures["most_in_flight"] == max(
        sum(a["sent_at"] <= m < a["sent_at"] + a["e2e"] for a in answers) for m in marks
    )
    text = llm.batch.table(figures)
    assert all(word in text for word in ("TTFT", "TPOT", "p50", "p95", "21 output tokens/s"))
    single = llm.batch.figures(answers[:1], 1.0)
    assert single["tpot_ms"] is None
    assert "TPOT" not in llm.batch.table(single)


@pytest.fixture
def lab(llm: Any, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Ray's nodes, and the endpoint that a batch asks."""
    lab = SimpleNamespace(dead=set[str](), server=Server(llm, lambda *_: False))

    async def ask(prompt: Any, sent_at: float) -> Any:
        made = await lab.server.ask(prompt, sent_at)
        return {**answer(prompt[0], sent_at=sent_at), "tokens": [1, 2, 3], "sha256": made["sha256"]}

    monkeypatch.setattr(llm.batch, "dead_nodes", lambda: set(lab.dead))
    monkeypatch.setattr(llm.batch, "asking", lambda *_: ask)
    return lab


ARGS = SimpleNamespace(part_seconds=1, output_tokens=3, in_flight=4, give_up=1e9, check=4)
PLAN = {"output_tokens": 3, "checkpoint_sha256": SHA256}


def evidence_of(llm: Any, kept: Any, prompts: Any) -> BatchEvidence:
    made = asyncio.run(llm.batch.answer_batch("http://x", prompts, SHA256, kept, ARGS))
    made = {**made, "plan": PLAN, "job": "j", "batch": "b"}
    read = parse(BatchEvidence, made, "it")
    assert plain(read) == made
    return read


def test_a_batch_that_loses_a_node_answers_every_prompt_once_and_leaves_the_evidence_of_it(
    llm: Any, kept: Any, lab: SimpleNamespace, capsys: Any
) -> None:
    lab.dead = {"earlier"}

    def fails(name: str, attempt: int) -> bool:
        lost = name.endswith("7") and attempt == 1
        lab.dead |= {"n1"} if lost else set()
        return lost

    lab.server.fails = fails
    receipt = inference.judge(evidence_of(llm, kept, llm.batch.random_prompts(20, 6)))
    assert receipt.verdict.value == "recovered", receipt.checks
    assert [lost.node_id for lost in receipt.lost_nodes] == ["n1"]
    assert receipt.lost_attempts == 2
    assert len(LOST.findall(capsys.readouterr().out)) == 2
    assert len(kept.read("answers")) == 20
    assert f"{llm.batch.EVIDENCE}/" == f"{inference.PREFIX}/"


def test_a_batch_goes_on_where_it_was_and_an_answer_given_twice_is_seen(
    llm: Any, kept: Any, lab: SimpleNamespace
) -> None:
    prompts = llm.batch.random_prompts(9, 6)
    evidence_of(llm, kept, prompts[:5])
    lab.server.attempts.clear()
    evidence = evidence_of(llm, kept, prompts)
    assert {name for name, _ in prompts[5:]} <= lab.server.attempts.keys()
    assert sum(lab.server.attempts.values()) == 4 + ARGS.check
    assert inference.judge(evidence).verdict.value == "as-expected"
    kept.write(f"answers/{prompts[0][0]}.twice.json", kept.read("answers")[0])
    assert inference.judge(evidence_of(llm, kept, prompts)).verdict.value == "failed"


def test_an_endpoint_that_refuses_the_comparison_leaves_the_evidence_of_the_batch(
    llm: Any, kept: Any, lab: SimpleNamespace, capsys: Any
) -> None:
    prompts = llm.batch.random_prompts(3, 6)

    def fails(name: str, attempt: int) -> bool:
        if attempt > 1:
            raise llm.batch.RefusedError("HTTP 401")
        return False

    lab.server.fails = fails
    evidence = evidence_of(llm, kept, prompts)
    assert len(evidence.answers) == 3
    assert inference.judge(evidence).verdict.value == "not-verified"
    assert "not asked for once more: HTTP 401" in capsys.readouterr().out


def test_a_batch_with_a_prompt_that_was_given_up_leaves_its_evidence_before_it_fails(
    llm: Any, lab: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    written: list[Any] = []
    lab.server.fails = lambda name, _: name.endswith("2")
    (tmp_path / "checkpoint").mkdir()
    args = SimpleNamespace(
        **{**vars(ARGS), "give_up": 0.0}, checkpoint=str(tmp_path / "checkpoint"), prompts=5, input_tokens=6,
        seed=0, name="", url="", dtype="auto", gpus=0, storage=f"file://{tmp_path}",
    )  # fmt: skip
    evidence = tmp_path / llm.batch.EVIDENCE / "job-a.json"
    monkeypatch.setattr(llm.batch.serve, "arguments", lambda _: args)
    monkeypatch.setattr(llm.batch.serve, "submission_id", lambda: "job-a")
    monkeypatch.setattr(llm.batch.serve, "start", lambda _: "http://x")
    monkeypatch.setattr(llm.batch.serve, "stop", lambda: written.append(evidence.exists()))
    monkeypatch.setattr(llm.batch, "sha256_of", lambda _: SHA256)
    with pytest.raises(SystemExit, match=r": 1; .* name=job-a"):
        llm.batch.main()
    assert written == [True], "the endpoint was ended before the evidence was there"
    read = parse(BatchEvidence, json.loads(evidence.read_text()), "it")
    assert len(read.answers) == 4
    assert inference.judge(read).verdict.value == "failed"
