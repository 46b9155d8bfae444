"""Applications of Ray Serve: one for each job, beside those of other jobs, and ended with its job.

A cluster has one instance of Ray Serve, with one HTTP proxy that all its applications share. So the name and
the route of an application are its job's; host and port are those of the job that started the instance. A job
ends its own application, those of jobs that were killed before they could, and, after the last one, the
instance.
"""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

PREFIX = "llm-"
"""Beginning of the names of our applications: others are left alone."""

LOCK = "the applications of Ray Serve"
"""Name of the actor that stands for the right to start or end the instance."""

NAMESPACE = "llm"

LOCK_SECONDS = 120.0
"""Longest wait for another job to start or to end the instance: both take seconds."""

ROUTE_SECONDS = 60.0

FAILED = ("DEPLOY_FAILED", "UNHEALTHY")


class ApplicationError(Exception):
    """An application does not start, or the instance stays locked."""


@dataclass(frozen=True)
class Address:
    """An address on which the HTTP proxy listens."""

    host: str
    port: int


def name_of(submission: str, ray_job: str) -> str:
    """The name of a job's application: its submission id, and Ray's id, which tells if its driver lives."""
    return f"{PREFIX}{submission}-{ray_job}"


def stale(names: Iterable[str], alive: Iterable[str]) -> list[str]:
    """Our applications whose driver is not among the living ones."""
    living = set(alive)
    return [name for name in names if name.startswith(PREFIX) and name.rpartition("-")[2] not in living]


def listening(asked: Address, running: Address | None, free: Callable[[Address], int]) -> Address:
    """The address of the proxy: that of the instance that runs, else the one asked for, on a free port."""
    return running or Address(asked.host, free(asked))


def free_port(asked: Address) -> int:
    """The port that was asked for, or another one where a process of this machine listens on it already."""
    for port in (asked.port, 0):
        with closing(socket.socket()) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((asked.host, port))
            except OSError:
                continue
            return int(tried.getsockname()[1])
    raise ApplicationError(f"no port of {asked.host} can be listened on")


def start(target: Any, name: str, asked: Address) -> str:
    """Start an application and wait until it runs; returns its URL. Raises ApplicationError."""
    from ray import serve
    from ray.serve.api import RunTarget

    with _alone():
        _end_stale()
        if not serve.status().applications:
            serve.shutdown()  # an instance without applications may listen where nobody asked it to
        address = listening(asked, _running(), free_port)
        if address != asked:
            print(
                f"{asked.host}:{asked.port} is taken: listening on {address.host}:{address.port}", flush=True
            )
        serve.start(proxy_location="HeadOnly", http_options={"host": address.host, "port": address.port})
        run = RunTarget(target, name=name, route_prefix=f"/{name}")
        serve.run_many([run], wait_for_applications_running=False)
    url = f"http://{address.host}:{address.port}/{name}"
    _wait_until_it_runs(name)
    _wait_for_the_route(url)
    return url


def stop(name: str) -> None:
    """End an application with its replicas, and the instance after the last one."""
    from ray import serve

    if name in serve.status().applications:
        serve.delete(name)
    with _alone():
        _end_stale()
        if not serve.status().applications:
            serve.shutdown()


def _wait_until_it_runs(name: str) -> None:
    """Wait for as long as it takes to find room for the replicas: the job can be stopped."""
    from ray import serve

    while True:
        application = serve.status().applications.get(name)
        if application is None:
            raise ApplicationError(f"{name} was ended while it started")
        if application.status == "RUNNING":
            return
        if application.status in FAILED:
            raise ApplicationError(f"{name} does not start: {application.message}")
        time.sleep(0.1)


def _wait_for_the_route(url: str) -> None:
    """Wait until the proxy knows the way to an application that runs: it hears of new ones a moment later."""
    deadline = time.monotonic() + ROUTE_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=10):
                return
        except OSError as error:
            if time.monotonic() > deadline:
                raise ApplicationError(f"{url} does not answer after {ROUTE_SECONDS:g} s: {error}") from None
        time.sleep(0.05)


def _end_stale() -> None:
    """End the applications of jobs that were killed before they could do so."""
    from ray import serve
    from ray._private.state import state

    alive = [job["JobID"] for job in state.job_table() if not job["IsDead"]]
    for name in stale(serve.status().applications, alive):
        print(f"{name} is ended: its job is over", flush=True)
        serve.delete(name)


def _running() -> Address | None:
    """The address of the instance that runs; None where none does."""
    from ray.serve.context import _get_global_client

    client = _get_global_client(raise_if_no_controller_running=False)
    return None if client is None else Address(client.http_config.host, client.http_config.port)


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the right to start or end the instance. The actor that stands for it dies with its driver."""
    import ray

    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            holder = ray.remote(num_cpus=0)(_Holder).options(name=LOCK, namespace=NAMESPACE).remote()
            break
        except ValueError:  # there is one of this name
            if time.monotonic() > deadline:
                raise ApplicationError(f"another job has held {LOCK} for {LOCK_SECONDS:g} s") from None
            time.sleep(0.2)
    try:
        yield
    finally:
        ray.kill(holder)


class _Holder:
    """An actor that does nothing but be there."""
