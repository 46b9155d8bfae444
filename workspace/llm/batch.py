"""Answer a batch of prompts with a trained model, measure it, and lose no prompt when a node is lost.

    ray job submit --working-dir . -- python batch.py --from my-run --replicas 2

Prompts go to an endpoint: one that this job starts (serve.py), or `--url` of another one, such as vLLM's. An
answer counts once its stream is complete; a prompt whose stream broke is sent again, by its id. Answers are
kept in the object store as they come, each under a name of its own, so that one that was given twice is seen:

    <storage>/batches/<name>/plan.json                     what the batch is; written once
    <storage>/batches/<name>/answers/<prompt>.<one>.json   an answer, complete from its first byte on

The same `--name` again asks only for what is missing. At the end some answers are asked for once more, and
the evidence is written that `labctl jobs receipt` judges.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import ray
import serve
from checkpoint import sha256_of
from ray.train import Checkpoint

PAUSE_SECONDS = 0.5
"""Wait before a prompt is sent again."""

PERCENTILES = (50, 95, 99)

EVIDENCE = ".raylab/inference"
"""Folder of the storage with the evidence of each job."""

Prompt = tuple[str, list[int]]
"""Id and bytes."""

Answer = dict[str, Any]
"""A complete answer, as it is kept. `ttft` and `e2e` are in seconds from `sent_at`, that since the epoch."""


class LostError(Exception):
    """An attempt broke, or the server is not there: the same again may succeed."""


class RefusedError(Exception):
    """The server refuses the request: the same again will not succeed."""


def random_prompts(count: int, tokens: int, seed: int = 0) -> list[Prompt]:
    """Prompts of random letters: every one of the same length, the same ones for the same seed."""
    draw, letters = random.Random(seed), b"abcdefghijklmnopqrstuvwxyz      \n"
    return [(f"prompt-{number:05d}", draw.choices(letters, k=tokens)) for number in range(count)]


async def receive(lines: AsyncIterator[bytes], sent_at: float, now: Callable[[], float]) -> Answer:
    """An answer from the lines of its stream. Raises LostError for one without its end, ValueError."""
    tokens: list[int] = []
    times: list[float] = []
    checkpoints: set[str] = set()
    async for line in lines:
        content = line.strip().removeprefix(b"data:").strip()
        if content == b"[DONE]":
            break
        if content:
            document = json.loads(content)
            if "choices" not in document:
                raise LostError(str(document))
            times.append(now() - sent_at)
            checkpoints.add(document.get("system_fingerprint") or "")
            tokens += document["choices"][0].get("token_ids") or []
    else:
        raise LostError("the stream ended too early")
    if len(checkpoints) != 1:
        raise LostError(f"the stream is of {len(checkpoints)} checkpoints")
    digest = hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()
    return {"sha256": digest, "output_tokens": len(tokens), "tokens": tokens, "sent_at": sent_at,
            "ttft": times[0], "e2e": times[-1], "checkpoint_sha256": checkpoints.pop()}  # fmt: skip


Ask = Callable[[Prompt, float], Awaitable[Answer]]
"""Asks for one answer; takes the time from which it is measured. Raises LostError, RefusedError."""


def asking(http: Any, url: str, max_tokens: int, checkpoint: str) -> Ask:
    """Ask an endpoint for greedy answers of a fixed length; `checkpoint` is the SHA-256 of the one wanted."""
    url, headers = f"{url.rstrip('/')}/v1/completions", {"Authorization": f"Bearer {serve.bearer_token()}"}

    async def ask(prompt: Prompt, sent_at: float) -> Answer:
        body = {"model": "llm", "prompt": prompt[1], "max_tokens": max_tokens, "temperature": 0,
                "ignore_eos": True, "stream": True, "return_token_ids": True}  # fmt: skip
        try:
            async with http.post(url, json=body, headers=headers) as response:
                if response.status in (400, 401, 403, 404, 405, 413, 422):
                    raise RefusedError(f"{url}: HTTP {response.status}: {(await response.text())[:300]}")
                if response.status != 200:
                    raise LostError(f"HTTP {response.status}")
                answer = await receive(aiter(response.content), sent_at, time.time)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
            raise LostError(repr(error)) from error
        if answer["checkpoint_sha256"] not in ("", checkpoint):
            raise RefusedError(f"{url} answers with the checkpoint {answer['checkpoint_sha256'][:16]}")
        return {"id": prompt[0], **answer}

    return ask


async def answer_all(
    prompts: Iterable[Prompt],
    ask: Ask,
    args: argparse.Namespace,
    take: Callable[[Answer], Awaitable[None]],
    fail: Callable[[str, int, LostError], None],
) -> None:
    """Have every prompt answered, `in_flight` at a time.

    A prompt whose attempt is lost is sent again, for `give_up` seconds; the server keeps nothing of that
    attempt, so an answer is taken once. Raises RefusedError.
    """
    todo = iter(prompts)

    async def work() -> None:
        for prompt in todo:
            began = time.time()
            for attempt in itertools.count(1):
                try:
                    answer = await ask(prompt, began)
                except LostError as error:
                    fail(prompt[0], attempt, error)
                    if time.time() - began > args.give_up:
                        break
                    await asyncio.sleep(PAUSE_SECONDS)
                else:
                    await take({**answer, "attempts": attempt})
                    break

    await asyncio.gather(*(work() for _ in range(args.in_flight)))


class Kept:
    """The folder of a batch in the object store."""

    def __init__(self, storage: str, batch: str, filesystem: Any = None) -> None:
        """`storage` is a URI, or a path on a `filesystem` of pyarrow's."""
        from pyarrow import fs

        if filesystem is None:
            if storage.startswith("s3://"):  # one request for an answer, not three as for an upload in parts
                storage += f"{'&' if '?' in storage else '?'}allow_delayed_open=true"
            filesystem, storage = fs.FileSystem.from_uri(storage)
        self._fs, self._folder = filesystem, f"{storage.rstrip('/')}/{batch}"

    def read(self, folder: str) -> list[Any]:
        """Every document of a folder."""
        from pyarrow import fs

        place = fs.FileSelector(f"{self._folder}/{folder}".rstrip("/"), allow_not_found=True)
        files = self._fs.get_file_info(place)
        paths = sorted(file.path for file in files if file.is_file)
        return [json.loads(self._fs.open_input_stream(path).read()) for path in paths]

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a document; it is there whole or not at all where the store is S3."""
        path = f"{self._folder}/{name}"
        if self._fs.type_name == "local":  # a store has no folders: it would make an empty object of each
            self._fs.create_dir(path.rpartition("/")[0], recursive=True)
        with self._fs.open_output_stream(path) as out:
            out.write(json.dumps(document).encode())

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan of a new batch. Raises SystemExit for one that was begun with another plan."""
        for before in self.read("")[:1]:
            if changed := [f"{k} was {before.get(k)!r}" for k in plan if before.get(k) != plan[k]]:
                raise SystemExit(f"the batch was begun otherwise ({', '.join(changed)}): take another --name")
        self.write("plan.json", plan)


def dead_nodes() -> set[str]:
    """The nodes that Ray has declared dead so far."""
    return {node["NodeID"] for node in ray.nodes() if not node["Alive"]}


def figures(answers: Sequence[Answer], seconds: float) -> dict[str, Any]:
    """Throughput of a run; TTFT (to the first part) and TPOT (of each byte after that) in milliseconds."""
    ends = sorted(end for a in answers for end in ((a["sent_at"], 1), (a["sent_at"] + a["e2e"], -1)))
    tokens = sum(a["output_tokens"] for a in answers)
    tpot = [(a["e2e"] - a["ttft"]) / (a["output_tokens"] - 1) for a in answers if a["output_tokens"] > 1]

    def spread(values: Sequence[float]) -> dict[str, float] | None:
        ms = 1000 * np.asarray(values)
        shares = {f"p{p}": float(np.percentile(ms, p)) for p in PERCENTILES if values}
        return {**shares, "max": float(ms.max())} if values else None

    return {
        "completed": len(answers), "seconds": seconds, "requests_per_second": len(answers) / seconds,
        "output_tokens_per_second": tokens / seconds,
        "most_in_flight": max(itertools.accumulate(change for _, change in ends)),
        "ttft_ms": spread([a["ttft"] for a in answers]), "tpot_ms": spread(tpot),
    }  # fmt: skip


def table(totals: Mapping[str, Any]) -> str:
    """The figures in words, for a log."""
    rows = {"TTFT": totals["ttft_ms"], "TPOT": totals["tpot_ms"]}
    lines = [f"{totals['completed']} prompts answered in {totals['seconds']:.1f} s, at most "
             f"{totals['most_in_flight']} in flight: {totals['requests_per_second']:.2f} requests/s, "
             f"{totals['output_tokens_per_second']:,.0f} output tokens/s",
             "ms  " + "".join(f"{column:>10}" for column in rows["TTFT"])]  # fmt: skip
    lines += [name + "".join(f"{ms:>10.1f}" for ms in row.values()) for name, row in rows.items() if row]
    return "\n".join(lines)


async def answer_batch(
    url: str, prompts: Sequence[Prompt], sha256: str, kept: Kept, args: argparse.Namespace
) -> dict[str, Any]:
    """Have what is missing answered, and some answers once more; returns the evidence."""
    done = {answer["id"] for answer in kept.read("answers")}
    missing = [prompt for prompt in prompts if prompt[0] not in done]
    print(f"asking {url}: {len(prompts)} prompts, {len(done)} answered before", flush=True)
    before, session = dead_nodes(), f"{int(time.time())}-{os.getpid()}"
    answers: list[Answer] = []
    failures: list[dict[str, Any]] = []
    lost: dict[str, float] = {}
    reference: dict[str, str] = {}

    async def take(answer: Answer) -> None:
        """Keep an answer: it counts when the store has it."""
        name = f"answers/{answer['id']}.{uuid.uuid4().hex}.json"
        await asyncio.to_thread(kept.write, name, {**answer, "session": session})
        answers.append(answer)
        if len(answers) % max(1, len(missing) // 16) == 0:
            print(f"answered {len(answers)}/{len(missing)}", flush=True)

    def fail(prompt: str, attempt: int, error: LostError) -> None:
        """Note a lost attempt, and the nodes that are dead by now."""
        print(f"{prompt}: attempt {attempt} lost: {str(error)[:120]}", flush=True)
        failures.append({"id": prompt, "attempt": attempt, "at": time.time(), "reason": str(error)})
        lost.update({node: time.time() for node in dead_nodes() - before - lost.keys()})

    async def compare(answer: Answer) -> None:
        reference[answer["id"]] = answer["sha256"]

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=args.part_seconds)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as http:
        ask, began = asking(http, url, args.output_tokens, sha256), time.time()
        await answer_all(missing, ask, args, take, fail)
        seconds, stored = time.time() - began, kept.read("answers")
        again = sample(prompts, stored, args.check) if len(answers) == len(missing) else []
        try:
            await answer_all(again, ask, args, compare, fail)
        except RefusedError as error:
            print(f"not asked for once more: {error}")
    lost.update({node: time.time() for node in dead_nodes() - before - lost.keys()})
    return {
        "schema": "inference-evidence/1", "prompts": [name for name, _ in prompts],
        "answers": [{k: v for k, v in a.items() if k != "tokens"} for a in stored], "failures": failures,
        "lost_nodes": [{"node_id": node, "at": at} for node, at in lost.items()],
        "reference": reference, "figures": figures(answers, seconds) if answers else None,
    }  # fmt: skip


def sample(prompts: Sequence[Prompt], answers: Sequence[Answer], count: int) -> list[Prompt]:
    """The prompts whose answers are compared: those that were sent again first, the rest drawn over all."""
    once = {answer["id"]: answer["attempts"] < 2 for answer in answers}
    order = random.SystemRandom().sample(prompts, len(prompts))
    return sorted(order, key=lambda prompt: once.get(prompt[0], True))[:count]


def main() -> None:
    args = serve.arguments("recipe-batch.json")
    with Checkpoint(args.checkpoint).as_directory() as folder:
        sha256 = sha256_of(Path(folder))
    job, prompts = serve.submission_id(), random_prompts(args.prompts, args.input_tokens, args.seed)
    name, engine = args.name or job, f"batches, {args.dtype} on {'GPUs' if args.gpus else 'CPUs'}"
    plan = {"checkpoint": args.checkpoint, "checkpoint_sha256": sha256, "engine": args.url or engine} | {
        key: vars(args)[key] for key in ("prompts", "seed", "input_tokens", "output_tokens")
    }
    kept = Kept(args.storage, f"batches/{name}")
    kept.begin(plan)
    try:
        evidence = asyncio.run(answer_batch(args.url or serve.start(args), prompts, sha256, kept, args))
        document = {**evidence, "plan": plan, "job": job, "batch": name}
        Kept(args.storage, EVIDENCE).write(f"{job}.json", document)
    except RefusedError as error:
        raise SystemExit(f"{error}; the same batch goes on with -p name={name}") from None
    finally:
        if not args.url:
            serve.stop()
    if evidence["figures"]:
        print(table(evidence["figures"]))
    print(f"receipt: labctl jobs receipt {job}", flush=True)
    if left := set(evidence["prompts"]) - {answer["id"] for answer in evidence["answers"]}:
        raise SystemExit(
            f"prompts without an answer: {len(left)}; the same batch goes on with -p name={name}"
        )


if __name__ == "__main__":
    main()
