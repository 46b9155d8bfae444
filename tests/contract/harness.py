"""What the contract suite asks of a runtime beside its interface: the cluster, the bucket, the leftovers.

To add a runtime: a subclass of `Harness`, and its line in HARNESSES.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from lab.cluster.api import Node, RayApi
from lab.errors import ServiceError
from lab.flows.doctor.facts import gather_lab
from lab.flows.doctor.running import running_checks
from lab.host.secrets import load_or_make
from lab.runtime.base import Runtime
from lab.services import worker
from lab.topology import BUCKET, REGION, Credentials, GpuAssignment, GpuPlan, LabSpec, State, Vendor
from tests.fakes import FakeHost, FakeRuntime
from tests.waiting import PATIENCE, eventually

if TYPE_CHECKING:
    import psutil

T = TypeVar("T")


class Harness(ABC):
    """One lab of one runtime, under a name of its own."""

    kind: str

    def __init__(self) -> None:
        self.name = f"contract-{secrets.token_hex(3)}"

    @property
    def spec(self) -> LabSpec:
        """What the suite starts: two workers with a simulated GPU each."""
        workers = tuple(GpuAssignment(worker(i)) for i in range(2))
        return LabSpec(self.name, GpuPlan(Vendor.SIMULATED, workers, "contract"), 2, 2)

    @abstractmethod
    def runtime(self, name: str = "") -> Runtime:
        """A new instance, as another shell would make, for this lab or for the one named."""

    @abstractmethod
    def nodes(self) -> tuple[Node, ...]:
        """What Ray says about its nodes."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Store an object in the lab's bucket."""

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """An object of the bucket, or None when there is none."""

    @abstractmethod
    def stored(self) -> bool:
        """Whether this machine keeps anything for the lab's next `up`, up or not."""

    @abstractmethod
    def check_access(self) -> None:
        """Assert that dashboard and store serve whoever has the secret, and nobody else."""

    @abstractmethod
    def refused(self) -> tuple[str, str]:
        """The store's error codes for the training key and for the root key; empty for one that it serves."""

    def scripted(self, service: str, argv: list[str], output: str) -> None:
        """Tell a runtime that has no real services what a command in one prints."""
        del service, argv, output

    @abstractmethod
    def spoiled(self, service: str) -> AbstractContextManager[object]:
        """Within it a service that is down cannot be started."""

    @abstractmethod
    def leftovers(self) -> Callable[[], list[str]]:
        """Called while the lab is up; what it returns lists, later, what is still there of that lab."""

    def close(self) -> None:
        """Remove the lab, whatever state it is in."""
        self.runtime().down(volumes=True)

    def now(self) -> float:
        """Seconds of this runtime's clock."""
        return time.monotonic()

    def eventually(self, condition: Callable[[], T], what: str) -> T:
        """The first true value of `condition`, within PATIENCE."""
        return eventually(condition, PATIENCE, what)

    # In terms of the above

    def state(self, service: str) -> State:
        """The service's state as a fresh instance sees it."""
        status = self.runtime().status().service(service)
        assert status is not None, f"the status has no {service}"
        return status.state

    def node(self, service: str) -> Node | None:
        """The living node of a service."""
        return next((n for n in self.nodes() if n.alive and n.service == service), None)

    def node_of(self, service: str) -> Node:
        """The living node of a service, which must be there."""
        node = self.node(service)
        assert node is not None, f"{service} has no living node: {self.nodes()}"
        return node

    def identities(self) -> dict[str, tuple[int | None, str]]:
        """What each service runs as: process id or container."""
        return {s.service: (s.pid, s.container) for s in self.runtime().status().services}


class FakeHarness(Harness):
    kind = "fake"

    def __init__(self) -> None:
        super().__init__()
        self.host = FakeHost()

    def runtime(self, name: str = "") -> FakeRuntime:
        return FakeRuntime(name or self.name, self.host)

    def nodes(self) -> tuple[Node, ...]:
        return self.runtime().nodes()

    def put(self, key: str, data: bytes) -> None:
        self.runtime().objects[key] = data

    def get(self, key: str) -> bytes | None:
        return self.runtime().objects.get(key)

    def stored(self) -> bool:
        return self.name in self.host.objects

    def scripted(self, service: str, argv: list[str], output: str) -> None:
        self.runtime().answer(service, argv, output)

    def check_access(self) -> None:
        endpoints = self.runtime().endpoints()
        assert endpoints.ray_token
        assert endpoints.credentials.access_key
        assert endpoints.credentials.secret_key

    def refused(self) -> tuple[str, str]:
        return ("" if self.runtime().training_key else "InvalidAccessKeyId"), ""

    def spoiled(self, service: str) -> AbstractContextManager[object]:
        self.runtime().fail_on_start(service, ServiceError(f"{service} ended while starting"))
        return contextlib.nullcontext()

    def leftovers(self) -> Callable[[], list[str]]:
        return lambda: [name for name in self.host.labs if name == self.name]

    def now(self) -> float:
        return self.host.clock()

    def eventually(self, condition: Callable[[], T], what: str) -> T:
        return eventually(condition, PATIENCE, what, clock=self.host.clock, sleep=self.host.clock.sleep)


class ServingHarness(Harness):
    """A lab that really listens: reached through its endpoints, as a person's programs would."""

    def nodes(self) -> tuple[Node, ...]:
        endpoints = self.runtime().endpoints()
        return RayApi(endpoints.dashboard, endpoints.ray_token).nodes()

    def put(self, key: str, data: bytes) -> None:
        from lab.store import ObjectStore

        endpoints = self.runtime().endpoints()
        ObjectStore(endpoints.s3, endpoints.credentials, REGION).put(key, data)

    def get(self, key: str) -> bytes | None:
        from lab.store import ObjectStore

        endpoints = self.runtime().endpoints()
        store = ObjectStore(endpoints.s3, endpoints.credentials, REGION)
        return store.get(key) if store.exists(key) else None

    def spoiled(self, service: str) -> AbstractContextManager[object]:
        """Somebody else holds its port."""
        status = self.runtime().status().service(service)
        assert status is not None
        return socket.create_server(("127.0.0.1", urlsplit(status.url).port or 0))

    def refused(self) -> tuple[str, str]:
        endpoints = self.runtime().endpoints()
        root = load_or_make(self.runtime().folder() / "secrets").root
        return s3_error(endpoints.s3, endpoints.credentials), s3_error(endpoints.s3, root)

    def check_access(self) -> None:
        endpoints = self.runtime().endpoints()
        version = f"{endpoints.dashboard}/api/version"
        assert http_status(version, token=endpoints.ray_token) == 200
        assert http_status(version) == 401
        assert http_status(version, token="0" * 64) in (401, 403)
        right = endpoints.credentials
        assert s3_error(endpoints.s3, right) == ""
        assert s3_error(endpoints.s3, Credentials(right.access_key, "0" * 40)) == "SignatureDoesNotMatch"
        assert s3_error(endpoints.s3, Credentials("0" * 20, right.secret_key)) == "InvalidAccessKeyId"
        self.eventually(self._examined, "the doctor has nothing against it")

    def _examined(self) -> bool:
        status = self.runtime().status()
        seen = gather_lab(self.runtime(), status)
        assert [answer for answer in running_checks(seen) if answer.outcome != "passed"] == []
        listening = {listener.service for listener in seen.listeners or ()}
        assert listening >= {s.service for s in status.services if s.pid}, "the doctor missed open ports"
        return True


class LocalHarness(ServingHarness):
    kind = "local"

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="raylab-contract-"))

    def runtime(self, name: str = "") -> Runtime:
        from lab.runtime.local.runtime import LocalRuntime

        return LocalRuntime(name or self.name, self.home / (name or self.name))

    def stored(self) -> bool:
        return (self.home / self.name).exists()

    def leftovers(self) -> Callable[[], list[str]]:
        import psutil

        ports = {urlsplit(url).port for url in self._urls()}
        processes = self._processes()
        assert len(processes) >= len(self.runtime().status().services), processes

        def left() -> list[str]:
            alive = {p.pid: p for p in [*processes, *self._processes()] if p.is_running()}
            leftovers = [
                f"process {p.pid} {p.name()}" for p in alive.values() if p.status() != psutil.STATUS_ZOMBIE
            ]
            known = {p.pid for p in processes}
            for one in psutil.net_connections("tcp"):
                # A port can have gone to somebody else's program meanwhile.
                ours = one.pid is None or one.pid in known
                if ours and one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port in ports:
                    leftovers.append(f"port {one.laddr.port}")
            return leftovers

        return left

    def _urls(self) -> list[str]:
        e = self.runtime().endpoints()
        return [
            url
            for url in (e.dashboard, f"tcp://{e.gcs}", e.s3, e.jupyter, e.prometheus, e.alertmanager)
            if url
        ]

    def _processes(self) -> list[psutil.Process]:
        """Every process of the lab: what belongs to its services, and what carries its folder anywhere."""
        import psutil

        services = {s.pid for s in self.runtime().status().services if s.pid}
        by_pid = {}
        for process in psutil.process_iter():
            try:
                text = "\0".join([*process.cmdline(), *process.environ().values()])
                if str(self.home) in text or os.getsid(process.pid) in services or process.pid in services:
                    for member in (process, *process.children(recursive=True)):
                        by_pid[member.pid] = member
            except (psutil.Error, OSError):
                continue
        by_pid.pop(os.getpid(), None)
        return list(by_pid.values())

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.home, ignore_errors=True)


class MinioHarness(LocalHarness):
    """The same with MinIO as its store, which a lab of processes uses where it is on PATH."""


def http_status(url: str, token: str = "") -> int:
    """The status of a GET."""
    import urllib3

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib3.PoolManager(retries=False, timeout=PATIENCE) as pool:
        return int(pool.request("GET", url, headers=headers).status)


def s3_error(url: str, credentials: Credentials) -> str:
    """The store's error code for a listing of the bucket with this key, or nothing when it is served."""
    import minio

    parts = urlsplit(url)
    client = minio.Minio(
        endpoint=parts.netloc,
        access_key=credentials.access_key,
        secret_key=credentials.secret_key,
        secure=False,
        region=REGION,
    )
    try:
        list(client.list_objects(bucket_name=BUCKET))
    except minio.error.S3Error as error:
        return str(error.code)
    return ""


class ComposeHarness(ServingHarness):
    kind = "compose"

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="raylab-contract-"))

    def runtime(self, name: str = "") -> Runtime:
        from lab.runtime.compose.runtime import ComposeRuntime

        return ComposeRuntime(name or self.name, self.home / (name or self.name))

    def stored(self) -> bool:
        return bool((self.home / self.name).exists() or self._list("volume", "ls", "--quiet"))

    def check_access(self) -> None:
        super().check_access()
        containers = self._list("ps", "--quiet")
        published = [
            binding["HostIp"]
            for container in json.loads(docker("inspect", *containers))
            for bindings in (container["HostConfig"]["PortBindings"] or {}).values()
            for binding in bindings
        ]
        assert len(published) >= 4
        assert set(published) == {"127.0.0.1"}

    def leftovers(self) -> Callable[[], list[str]]:
        assert len(self._list("ps", "--quiet")) >= len(self.runtime().status().services)
        return lambda: [*self._list("ps", "--all", "--quiet"), *self._list("network", "ls", "--quiet")]

    def _list(self, *command: str) -> list[str]:
        label = f"label=com.docker.compose.project=raylab-{self.name}"
        return docker(*command, "--filter", label).split()

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.home, ignore_errors=True)


def docker(*arguments: str) -> str:
    """What `docker ARGUMENTS` prints."""
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout


HARNESSES: tuple[type[Harness], ...] = (FakeHarness, LocalHarness, MinioHarness, ComposeHarness)
"""The runtimes that the suite runs over."""

__all__ = ["HARNESSES", "Harness"]
