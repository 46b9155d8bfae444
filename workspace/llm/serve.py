"""Serve a trained model: an OpenAI-style endpoint on Ray Serve, with an engine on every replica.

The endpoint is on the head, on loopback, or on `--host` (in containers the lab's own network), below a route
of its job's (application.py). It asks for a bearer token (endpoint.py). Replicas are on nodes of their own
where there are enough.

    ray job submit --working-dir . -- python serve.py --from my-run
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import application

if TYPE_CHECKING:
    from engine import Engine


@dataclass(frozen=True)
class EngineSettings:
    """How an engine is made: the same on every replica, and where answers are computed once more."""

    checkpoint: str
    """URI."""
    slots: int
    context: int
    threads: int
    dtype: str
    """Of weights and cache: float32, bfloat16, or auto: bfloat16 on a GPU, float32 on a CPU."""
    gpu: bool
    """Compute on a GPU, where it is a real one. Without a share of one, a process may still see it."""

    @classmethod
    def from_args(cls, checkpoint: str, args: argparse.Namespace) -> EngineSettings:
        """The settings that a command line gives (`settings`)."""
        return cls(checkpoint, args.slots, args.context, args.threads, args.dtype, args.gpus > 0)

    def load(self) -> tuple[Engine, str]:
        """An engine with the checkpoint's model, and the SHA-256 of what was loaded."""
        import torch
        from checkpoint import sha256_of
        from engine import Engine
        from model import load_model
        from ray.train import Checkpoint

        torch.set_num_threads(self.threads)
        real = self.gpu and os.environ.get("RAYLAB_GPU") != "simulated" and torch.cuda.is_available()
        device = "cuda" if real else "cpu"
        dtype = {"cuda": "bfloat16", "cpu": "float32"}[device] if self.dtype == "auto" else self.dtype
        with Checkpoint(self.checkpoint).as_directory() as folder:
            model, sha256 = load_model(Path(folder), context=self.context), sha256_of(Path(folder))
        return Engine(model.to(device, getattr(torch, dtype)), self.slots), sha256


class Replica:
    """One replica: the model, its engine, and the endpoint over it. Ray Serve makes it, on a node."""

    def __init__(self, settings: EngineSettings, model: str, token: str) -> None:
        from endpoint import Endpoint, Loop

        engine, sha256 = settings.load()
        self._loop = Loop(engine)
        self._endpoint = Endpoint(self._loop, model, settings.context, token, sha256)

    def check_health(self) -> None:
        """Raise an error once the engine has failed: Ray Serve then starts another replica."""
        if self._loop.failure:
            raise RuntimeError(self._loop.failure)

    async def __call__(self, request: Any) -> Any:
        """Answer a request of Starlette's."""
        from starlette.responses import Response, StreamingResponse

        headers = {name.lower(): value for name, value in request.headers.items()}
        path = request.url.path.removeprefix(request.scope.get("root_path", ""))
        reply = await self._endpoint.handle(request.method, path, headers, await request.body())
        if reply.stream is not None:
            return StreamingResponse(_closed(reply.stream), media_type="text/event-stream")
        return Response(reply.body, reply.status, media_type="application/json")


async def _closed(stream: Any) -> AsyncIterator[bytes]:
    """The stream, closed however its reader ends: what nobody reads is not computed."""
    try:
        async for part in stream:
            yield part
    finally:
        await stream.aclose()


def start(checkpoint: str, args: argparse.Namespace, token: str) -> str:
    """Start this job's endpoint with its replicas and wait until they are ready; returns its URL."""
    from ray import serve
    from ray._private.worker import global_worker

    deployment = serve.deployment(
        Replica,
        name="engine",
        num_replicas=args.replicas,
        max_ongoing_requests=2 * args.slots,  # so that none waits at one replica while another is idle
        health_check_period_s=1,
        health_check_timeout_s=5,
        graceful_shutdown_timeout_s=5,
        logging_config={"enable_access_log": False},
        ray_actor_options={
            "num_cpus": args.cpus,
            "num_gpus": args.gpus,
            "runtime_env": environment(args.threads),
        },
    )
    target = deployment.bind(EngineSettings.from_args(checkpoint, args), args.model, token)
    url = application.start(target, own_name(), application.Address(args.host, args.port))
    global_worker._filter_logs_by_job = True  # Serve prints the lines of every job; replicas are of this one
    return url


def stop() -> None:
    """End this job's endpoint and its replicas."""
    application.stop(own_name())


def own_name() -> str:
    """The name of this job's application."""
    import ray

    return application.name_of(submission_id(), ray.get_runtime_context().get_job_id())


def submission_id() -> str:
    """The id under which this job was submitted; one of its own for a program that was not."""
    import ray
    from ray._private.worker import global_worker

    submitted = global_worker.core_worker.get_job_config().metadata.get("job_submission_id")
    return str(submitted or f"interactive-{ray.get_runtime_context().get_job_id()}")


def environment(threads: int) -> dict[str, Any]:
    """The environment of replicas: threads that wait for each other soon go to sleep.

    By default they spin for milliseconds; with another process on one of the cores a step of two threads then
    takes up to seventy times as long. Threads that never spin take twice as long on idle cores.
    """
    return {"env_vars": {"GOMP_SPINCOUNT": "500"}} if threads > 1 else {}


def settings(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the settings of an endpoint."""
    parser.add_argument("--from", required=True, help="checkpoint (URI), or run, of the model")
    parser.add_argument(
        "--storage", default=os.environ.get("RAYLAB_STORAGE", "s3://ray"), help="where runs are"
    )
    parser.add_argument("--model", default="llm", help="name by which requests ask for the model")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--slots", type=int, default=16, help="requests that a replica computes at once")
    parser.add_argument("--context", type=int, default=256, help="most bytes of a prompt plus its answer")
    parser.add_argument("--cpus", type=float, default=1, help="logical CPUs of a replica")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of a replica")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch of a replica")
    parser.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--host", default="127.0.0.1", help="address of the endpoint on the head")
    parser.add_argument("--port", type=int, default=8000, help="another one if it is taken")
    return parser


def main() -> None:
    import ray
    from endpoint import bearer_token
    from train import newest_of

    parser = settings(argparse.ArgumentParser(description="Serve a language model on a Ray cluster."))
    parser.add_argument("--minutes", type=float, default=60, help="minutes until it ends by itself")
    args = parser.parse_args()
    ray.init()
    checkpoint = newest_of(vars(args)["from"], args.storage)
    try:
        url = start(checkpoint, args, bearer_token())
        print(f"serving {checkpoint} as {args.model}: {url}/v1/completions", flush=True)
        time.sleep(60 * args.minutes)
    finally:
        stop()


if __name__ == "__main__":
    main()
