"""Serve a trained model: OpenAI's routes on Ray Serve, with an engine (inference.py) on every replica.

GET /v1/models          POST /v1/completions          GET /health (the only one without a token)

Jobs share the cluster's one HTTP proxy, which listens on the head where the first of them asked it to. Each
has an application and a route of its own, and ends only those.

    ray job submit --working-dir . -- python serve.py --from my-run
"""

from __future__ import annotations

import argparse
import asyncio
import codecs
import hashlib
import hmac
import json
import os
import socket
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from inference import Request, Token, load
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response, StreamingResponse
from train import newest_of, settings

PART_SECONDS = 0.01
"""Wait for prompts that come with a batch's first one, and least time between two parts of an answer: a part
costs Ray Serve's processes more time than a byte costs the engine of a small model."""


def bearer_token() -> str:
    """The endpoint's token: RAYLAB_LLM_TOKEN, or one made of the lab's token of Ray, which every node has.

    Ray's cannot be found from it. Raises KeyError where there is neither.
    """
    if token := os.environ.get("RAYLAB_LLM_TOKEN"):
        return token
    secret = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text().strip()
    return hmac.new(secret.encode(), b"raylab: the endpoint of a language model", hashlib.sha256).hexdigest()


def refusal(status: int, message: str) -> Response:
    """An error in OpenAI's form."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, status)


def next_part(steps: Iterator[list[Token | None]], seconds: float) -> list[list[Token]]:
    """The next bytes of each answer, until one ends or so much time has passed; empty after the last one."""
    began, part = time.perf_counter(), []
    for step in steps:
        part.append(step)
        if any(token and token.finish for token in step) or time.perf_counter() - began >= seconds:
            break
    return [[token for token in row if token] for row in zip(*part, strict=True)]


class Replica:
    """One replica: the model, and the routes over it. Ray Serve makes it on a node and calls it."""

    def __init__(self, args: argparse.Namespace, token: str) -> None:
        self._engine, self._sha256 = load(args)
        self._header = f"Bearer {token}".encode()
        self._waiting: asyncio.Queue[tuple[Request, asyncio.Queue[list[Token]]]] = asyncio.Queue()
        self._wanted: set[asyncio.Queue[list[Token]]] = set()
        """Answers whose clients are still there."""
        self._work = asyncio.ensure_future(self._answer_all())

    async def check_health(self) -> None:
        """Raise the error of an engine that has failed: Ray Serve then starts another replica."""
        if self._work.done():
            self._work.result()

    async def _answer_all(self) -> None:
        """Answer what waits, a batch at a time, as long as a client is there for it."""
        while True:
            batch = [await self._waiting.get()]
            await asyncio.sleep(PART_SECONDS)
            while len(batch) < self._engine.slots and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            batch = [waiting for waiting in batch if waiting[1] in self._wanted]
            steps, seconds = self._engine.decode([request for request, _ in batch]), 0.0
            answers = {answer for _, answer in batch}
            while answers & self._wanted and (parts := await asyncio.to_thread(next_part, steps, seconds)):
                seconds = PART_SECONDS
                for (_, answer), part in zip(batch, parts, strict=True):
                    if part:
                        answer.put_nowait(part)

    async def _parts(self, request: Request) -> AsyncIterator[list[Token]]:
        """The parts of an answer as they come."""
        answer: asyncio.Queue[list[Token]] = asyncio.Queue()
        self._waiting.put_nowait((request, answer))
        self._wanted.add(answer)
        part: list[Token] = []
        try:
            while not part or not part[-1].finish:
                yield (part := await answer.get())
        finally:
            self._wanted.remove(answer)

    async def __call__(self, http: Any) -> Response:
        """Answer a request of Starlette's."""
        path = http.url.path.removeprefix(http.scope.get("root_path", ""))
        if path == "/health":
            await self.check_health()
            return JSONResponse({"status": "ok"})
        if not hmac.compare_digest(http.headers.get("authorization", "").encode(), self._header):
            return refusal(401, "a bearer token is needed: Authorization: Bearer TOKEN")
        if (http.method, path) == ("GET", "/v1/models"):
            return JSONResponse({"object": "list", "data": [{"id": "llm", "object": "model"}]})
        if (http.method, path) != ("POST", "/v1/completions"):
            return refusal(404, f"there is no {http.method} {path}")
        try:
            request = Request.model_validate_json(await http.body())
            self._engine.check(request)
        except ValidationError as error:
            return refusal(400, "; ".join(f"{e['loc']}: {e['msg']}" for e in error.errors()))
        except ValueError as error:
            return refusal(400, str(error))
        if request.stream:
            return StreamingResponse(self._events(request), media_type="text/event-stream")
        tokens = [token async for part in self._parts(request) for token in part]
        length, count = len(request.prompt), len(tokens)
        usage = {"prompt_tokens": length, "completion_tokens": count, "total_tokens": length + count}
        return JSONResponse({**self._completions(request)(tokens), "usage": usage})

    async def _events(self, request: Request) -> AsyncIterator[str]:
        """An answer as server-sent events; `[DONE]` says that it is complete."""
        completion = self._completions(request)
        async for part in self._parts(request):
            yield f"data: {json.dumps(completion(part))}\n\n"
        yield "data: [DONE]\n\n"

    def _completions(self, request: Request) -> Callable[[list[Token]], dict[str, Any]]:
        """Gives the parts of one answer OpenAI's form. A character comes with its last byte; END is none."""
        head = {"id": f"cmpl-{uuid.uuid4().hex}", "object": "text_completion", "created": int(time.time()),
                "model": "llm", "system_fingerprint": self._sha256}  # fmt: skip
        decoder = codecs.getincrementaldecoder("utf-8")("replace")

        def completion(part: list[Token]) -> dict[str, Any]:
            ids, finish = [token.byte for token in part], part[-1].finish
            text = decoder.decode(bytes(filter(None, ids)), finish is not None)
            choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
            return {**head, "choices": [choice | ({"token_ids": ids} if request.return_token_ids else {})]}

        return completion


def submission_id() -> str:
    """The id under which this job was submitted; one of its own for a program that was not."""
    metadata = ray._private.worker.global_worker.core_worker.get_job_config().metadata
    return metadata.get("job_submission_id") or f"interactive-{ray.get_runtime_context().get_job_id()}"


def application() -> str:
    """The name of this job's application: its submission id, and Ray's id, which tells if it lives."""
    return f"llm-{submission_id()}-{ray.get_runtime_context().get_job_id()}"


def stale(applications: Iterable[str], alive: Iterable[str]) -> list[str]:
    """Our applications whose driver is not among the living ones."""
    living = set(alive)
    return [a for a in applications if a.startswith("llm-") and a.rpartition("-")[2] not in living]


def free_port(host: str, port: int) -> int:
    """The port, or another one where a process of this machine listens on it already."""
    for choice in (port, 0):
        with suppress(OSError), socket.create_server((host, choice)) as server:
            return int(server.getsockname()[1])
    raise SystemExit(f"no port of {host} can be listened on")


def start(args: argparse.Namespace) -> str:
    """Start this job's endpoint and wait until its replicas are ready; returns its URL.

    Ends the applications of jobs that were killed before they could do so.
    """
    from ray import serve
    from ray.serve.context import _get_global_client

    alive = [job["JobID"] for job in ray._private.state.state.job_table() if not job["IsDead"]]
    for name in stale(serve.status().applications, alive):
        print(f"{name} is ended: its job is over", flush=True)
        serve.delete(name, _blocking=False)
    if _get_global_client(raise_if_no_controller_running=False) is None:
        http = {"host": args.host, "port": free_port(args.host, args.port)}
        with suppress(ValueError):  # another job has started it this very moment
            serve.start(proxy_location="HeadOnly", http_options=http)
    # Threads that wait for each other spin for milliseconds by default, which on shared cores is long.
    environment = {"env_vars": {"GOMP_SPINCOUNT": "500"}} if args.threads > 1 else {}
    resources = {"num_cpus": args.cpus, "num_gpus": args.gpus, "runtime_env": environment}
    deployment = serve.deployment(
        Replica, name="engine", num_replicas=args.replicas, ray_actor_options=resources,
        max_ongoing_requests=2 * args.slots,  # a batch and the next one; others wait until one has room
        health_check_period_s=1, health_check_timeout_s=5, graceful_shutdown_timeout_s=5,
        logging_config={"enable_access_log": False},
    )  # fmt: skip
    name = application()
    serve.run(deployment.bind(args, bearer_token()), name=name, route_prefix=f"/{name}")
    ray._private.worker.global_worker._filter_logs_by_job = True  # Serve prints the lines of every job
    address = _get_global_client().http_config
    url = f"http://{address.host}:{address.port}/{name}"
    for _ in range(1200):  # the proxy hears of the route a moment later
        with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=10):
            break
        time.sleep(0.05)
    return url


def stop() -> None:
    """End this job's endpoint and its replicas, if there are any; raises nothing."""
    from ray import serve

    try:
        if application() in serve.status().applications:
            serve.delete(application())
    except Exception as error:  # an error of the job itself must not be hidden by this one
        print(f"the endpoint was not ended: {error!r}", flush=True)


def arguments(recipe: str) -> argparse.Namespace:
    """The command line of a recipe, with `checkpoint`, the URI of the model."""
    parser = settings(recipe)
    args = parser.parse_args()
    if not vars(args)["from"]:
        parser.error("--from: name the model, a run of the recipe llm or a checkpoint")
    ray.init()
    args.checkpoint = newest_of(vars(args)["from"], args.storage)
    return args


def main() -> None:
    args = arguments("recipe-serve.json")
    try:
        print(f"serving {args.checkpoint} as llm: {start(args)}/v1/completions", flush=True)
        time.sleep(60 * args.minutes)
    finally:
        stop()


if __name__ == "__main__":
    from serve import main  # of a module in which replicas find its classes by name

    main()
