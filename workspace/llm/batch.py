"""Answer a batch of prompts with a trained model, and lose none of them when a node is lost.

    ray job submit --working-dir . -- python batch.py --from my-run --replicas 2

Prompts go to an endpoint: one that this job starts (serve.py), or `--url` of another one, such as vLLM's.
With `--through data` Ray Data has them answered by actors instead, without HTTP and without latencies.

A prompt whose answer broke off is sent again, by its id. Answers are kept as they come (answers.py); the same
`--name` again does only what is missing. Every answer names the SHA-256 of its checkpoint; one of another
model ends the batch. At the end some answers, drawn over the whole batch, are computed once more, and the
evidence is written that `labctl jobs receipt` judges.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import client
import measure
import serve
from answers import Kept
from client import Answer, Failure, Prompt, Target
from endpoint import bearer_token
from serve import EngineSettings
from timing import PERCENTILES, Timing, figures, table

EVIDENCE = ".raylab/inference"
"""Folder of the storage with the evidence of each job."""

SCHEMA = "inference-evidence/1"

CHECK_SECONDS = 600.0
"""Longest wait for the answers that are recomputed on a GPU."""

KEPT = ("id", "sha256", "output_tokens", "session", "sent_at", "attempts", "checkpoint_sha256")
"""Fields of a kept answer that are evidence."""


class Watch:
    """Notes which nodes Ray declares dead, in a thread."""

    def __init__(self, period: float = 0.5) -> None:
        self.lost: dict[str, float] = {}
        """Node id -> the time, in seconds since the epoch, at which it was seen to be dead."""
        self._over = threading.Event()
        self._period = period
        self._thread = threading.Thread(target=self._run, name="nodes", daemon=True)

    def __enter__(self) -> Watch:
        import ray

        self._dead = {node["NodeID"] for node in ray.nodes() if not node["Alive"]}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        import ray

        while not self._over.wait(self._period):
            for node in ray.nodes():
                if not node["Alive"] and node["NodeID"] not in self._dead:
                    self.lost.setdefault(node["NodeID"], time.time())


class Session:
    """One run of the client: it takes answers and failures, and keeps the former."""

    def __init__(self, kept: Kept, count: int) -> None:
        self._kept, self._count, self._done = kept, count, 0
        self.name = f"{int(time.time())}-{os.getpid()}"
        self.failures: list[Failure] = []
        self.timings: list[Timing] = []

    async def take(self, answer: Answer) -> None:
        """Keep an answer; it counts as done when the store has it."""
        await asyncio.to_thread(self._kept.keep, answer, self.name)
        self.timings.append(answer.timing)
        self._done += 1
        if self._done % max(1, self._count // 16) == 0 or self._done == self._count:
            print(f"answered {self._done}/{self._count}", flush=True)

    def fail(self, failure: Failure) -> None:
        """Note an attempt that was lost."""
        self.failures.append(failure)
        show(failure)


def show(failure: Failure) -> None:
    """Log an attempt that was lost."""
    print(f"{failure.id}: attempt {failure.attempt} lost: {failure.reason[:120]}", flush=True)


async def ask_all(
    url: str,
    prompts: Sequence[Prompt],
    args: argparse.Namespace,
    checkpoint: str,
    on_answer: Callable[[Answer], Awaitable[None]],
    on_failure: Callable[[Failure], None],
) -> list[str]:
    """Have the prompts answered over HTTP; returns the ids of those given up.

    `checkpoint` is the SHA-256 of the one that is to answer. Raises RefusedError, for another one too.
    """
    target = Target(url.rstrip("/"), args.model, bearer_token(), args.output_tokens, checkpoint)
    async with client.session(args.part_seconds) as http:
        ask = client.asking(http, target, time.time)
        return await client.answer_all(
            prompts, ask, args.in_flight, args.give_up, on_answer, on_failure, now=time.time
        )


class Answering:
    """An actor of Ray Data's: a batch of prompts in, their answers out."""

    def __init__(self, settings: EngineSettings, max_tokens: int) -> None:
        (self._engine, self._checkpoint), self._max_tokens = settings.load(), max_tokens

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        from engine import Request

        ids = [str(name) for name in batch["id"]]
        answers = self._engine.run(
            [
                Request(name, tuple(int(token) for token in tokens), self._max_tokens, ignore_eos=True)
                for name, tokens in zip(ids, batch["tokens"], strict=True)
            ]
        )
        return {
            "id": ids,
            "answer": [answers[name] for name in ids],
            "checkpoint": [self._checkpoint] * len(ids),
        }


def through_data(
    checkpoint: str, prompts: Sequence[Prompt], args: argparse.Namespace
) -> Iterator[tuple[str, list[int], str]]:
    """Prompt, answer and checkpoint from Ray Data, as soon as a block is there. Lost actors are made anew."""
    import ray.data

    rows = ray.data.from_items([{"id": p.id, "tokens": list(p.tokens)} for p in prompts])
    answered = rows.repartition(max(1, len(prompts) // args.slots)).map_batches(
        Answering,
        batch_size=args.slots,
        compute=ray.data.ActorPoolStrategy(size=args.replicas),
        num_cpus=args.cpus,
        num_gpus=args.gpus or None,
        fn_constructor_args=(EngineSettings.from_args(checkpoint, args), args.output_tokens),
    )
    for row in answered.iter_rows():
        yield str(row["id"]), [int(token) for token in row["answer"]], str(row["checkpoint"])


async def take_data(
    checkpoint: str, prompts: Sequence[Prompt], session: Session, args: argparse.Namespace
) -> None:
    """Keep the answers of Ray Data. They have one part each: when they were asked for and when they came."""
    began, lengths = time.time(), {p.id: len(p.tokens) for p in prompts}
    for name, tokens, sha256 in through_data(checkpoint, prompts, args):
        timing = Timing(name, began, (time.time() - began,), lengths[name], len(tokens))
        await session.take(Answer(name, tuple(tokens), timing, sha256))


def chosen(
    prompts: Sequence[Prompt], kept: Sequence[Mapping[str, Any]], count: int, draw: random.Random
) -> list[Prompt]:
    """The prompts whose answers are computed once more, drawn over all that have one.

    Up to half of them are drawn among those that were sent again: there, a lost node could do harm.
    """
    attempts = {answer["id"]: answer["attempts"] for answer in kept}
    answered = [p for p in prompts if p.id in attempts]
    again = [p for p in answered if attempts[p.id] > 1]
    first = draw.sample(again, min(len(again), (count + 1) // 2))
    taken = {p.id for p in first}
    rest = [p for p in answered if p.id not in taken]
    return first + draw.sample(rest, min(len(rest), count - len(first)))


def once_more(
    checkpoint: str, sha256: str, prompts: Sequence[Prompt], args: argparse.Namespace
) -> dict[str, str]:
    """Prompt -> SHA-256 of its answer, from the endpoint of `--url`, or by an engine like the replicas'.

    Where these have GPUs, so has that engine: a CPU rounds in another way. Answers that cannot be had are
    left out, with a line in the log.
    """
    import ray

    if not prompts:
        return {}
    digests: dict[str, str] = {}
    settings = EngineSettings.from_args(checkpoint, args)
    try:
        if args.url:
            asyncio.run(ask_again(args.url, prompts, args, sha256, digests))
        elif args.gpus:
            task = ray.remote(num_cpus=0, num_gpus=args.gpus)(reference)
            digests = ray.get(task.remote(settings, prompts, args.output_tokens), timeout=CHECK_SECONDS)
        else:
            digests = reference(settings, prompts, args.output_tokens)
    except ray.exceptions.GetTimeoutError:
        print(f"not recomputed in {CHECK_SECONDS:g} s: no GPU is free, or --check is too large")
    except (ray.exceptions.RayError, client.RefusedError) as error:
        print(f"not recomputed: {error}")
    if digests and len(digests) < len(prompts):
        print(f"{len(prompts) - len(digests)} of {len(prompts)} answers could not be recomputed")
    return digests


def reference(settings: EngineSettings, prompts: Sequence[Prompt], output_tokens: int) -> dict[str, str]:
    """Prompt -> SHA-256 of its answer, computed in this process."""
    from engine import Request

    asked = [Request(p.id, p.tokens, output_tokens, ignore_eos=True) for p in prompts]
    engine, _ = settings.load()
    return {name: client.digest(tokens) for name, tokens in engine.run(asked).items()}


def fingerprint(checkpoint: str) -> str:
    """SHA-256 of a checkpoint (URI), as it is stored now."""
    from checkpoint import sha256_of
    from ray.train import Checkpoint

    with Checkpoint(checkpoint).as_directory() as folder:
        return sha256_of(Path(folder))


async def ask_again(
    url: str, prompts: Sequence[Prompt], args: argparse.Namespace, checkpoint: str, digests: dict[str, str]
) -> None:
    """Put into `digests` what an endpoint answers now: prompt -> SHA-256."""

    async def take(answer: Answer) -> None:
        digests[answer.id] = answer.sha256

    await ask_all(url, prompts, args, checkpoint, take, show)


def evidence(
    kept: Sequence[Mapping[str, Any]],
    prompts: Sequence[Prompt],
    session: Session,
    lost: Mapping[str, float],
    expected: Mapping[str, str],
    seconds: float,
    plan: Mapping[str, Any],
    limits: Mapping[str, float],
) -> dict[str, Any]:
    """The evidence of a batch. Times are in seconds since the epoch; figures are of this run's requests."""
    return {
        "schema": SCHEMA,
        "plan": dict(plan),
        "prompts": [p.id for p in prompts],
        "answers": [
            {name: answer[name] for name in KEPT}
            | {"ttft": answer["parts"][0], "e2e": answer["parts"][-1]}
            for answer in kept
        ],
        "failures": [asdict(failure) for failure in session.failures],
        "lost_nodes": [{"node_id": node, "at": at} for node, at in sorted(lost.items())],
        "reference": dict(expected),
        "figures": figures(session.timings, seconds, 0, limits, PERCENTILES) if session.timings else None,
    }  # fmt: skip


def engine_of(args: argparse.Namespace) -> str:
    """What an answer depends on beside its checkpoint: another kind of engine rounds in another way."""
    return f"{args.dtype} on {'GPUs' if args.gpus else 'CPUs'}"


def settings() -> argparse.ArgumentParser:
    parser = measure.load(serve.settings(argparse.ArgumentParser(description=__doc__.split("\n")[0])))
    parser.add_argument("--name", default="", help="name of the batch; that of an earlier batch completes it")
    parser.add_argument("--through", choices=("serve", "data"), default="serve")
    parser.add_argument("--url", default="", help="an endpoint that is there, instead of one of its own")
    parser.add_argument("--give-up", type=float, default=300, help="seconds until a prompt is abandoned")
    parser.add_argument("--check", type=int, default=16, help="answers that are recomputed to compare")
    return parser


def main() -> None:
    import ray
    from train import newest_of

    args = settings().parse_args()
    if args.url and args.through == "data":
        raise SystemExit("--url: Ray Data computes answers without an endpoint; leave out one of the two")
    limits = measure.limits(args.goodput)
    ray.init()
    checkpoint = newest_of(vars(args)["from"], args.storage)
    job, sha256 = serve.submission_id(), fingerprint(checkpoint)
    prompts = client.random_prompts(args.prompts, args.input_tokens, args.seed)
    plan = {
        "checkpoint": checkpoint, "checkpoint_sha256": sha256, "model": args.model,
        "prompts": args.prompts, "seed": args.seed,
        "input_tokens": args.input_tokens, "output_tokens": args.output_tokens,
        "engine": "that of --url" if args.url else engine_of(args),
        "prompts_sha256": hashlib.sha256(repr(prompts).encode()).hexdigest(),
    }  # fmt: skip
    name = args.name or job
    kept = Kept(args.storage, f"batches/{name}")
    try:
        kept.begin(plan)
    except ValueError as error:
        raise SystemExit(f"--name {name}: {error}") from None
    done = set(kept.ids())
    missing = [p for p in prompts if p.id not in done]
    print(f"batch {name}: {len(prompts)} prompts, {len(done)} answered before", flush=True)
    session = Session(kept, len(missing))
    given_up: list[str] = []
    seconds = 0.0
    with Watch() as watch:
        try:
            if missing and args.through == "data":
                began = time.time()
                asyncio.run(take_data(checkpoint, missing, session, args))
            elif missing:
                url = args.url or serve.start(checkpoint, args, bearer_token())
                began = time.time()
                print(f"asking {url}, {args.in_flight} prompts in flight", flush=True)
                given_up = asyncio.run(ask_all(url, missing, args, sha256, session.take, session.fail))
            seconds = time.time() - began if missing else 0.0
        finally:
            if args.through == "serve" and not args.url:
                serve.stop()
    answers = kept.all()
    again = chosen(prompts, answers, args.check, random.SystemRandom())
    expected = once_more(checkpoint, sha256, again, args)
    summary = evidence(answers, prompts, session, watch.lost, expected, seconds, plan, limits)
    if summary["figures"]:
        if args.through == "data":  # a whole answer is no token, and its actor works through batches
            summary["figures"].update(dict.fromkeys(("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")))
        print(table(summary["figures"]))
    Kept(args.storage, EVIDENCE).write(f"{job}.json", {**summary, "job": job, "batch": name})
    print(f"receipt: labctl jobs receipt {job}", flush=True)
    if given_up:
        raise SystemExit(f"{len(given_up)} prompts were given up; again with -p name={name}")


if __name__ == "__main__":
    main()
