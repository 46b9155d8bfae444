"""The local runtime: the lab as plain processes on loopback, without Docker."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lab import environment
from lab.cluster import Node, RayApi
from lab.errors import (
    ClusterError,
    LabDownError,
    LabError,
    NotFoundError,
    RefusedError,
    ServiceError,
    UnsupportedError,
    WaitTimeoutError,
)
from lab.home import home, lock, make_private, write_private
from lab.runtime.base import OnProgress, Runtime, ignore_progress
from lab.runtime.local import ports, processes, readiness, services, state
from lab.runtime.local.processes import Identity
from lab.runtime.local.services import Layout, Plan
from lab.runtime.local.state import LabState
from lab.secrets import RAY_FILE, Secrets, load_or_make
from lab.topology import (
    BUCKET,
    HEAD,
    JUPYTER,
    PROMETHEUS,
    REGION,
    STORE,
    Endpoints,
    LabSpec,
    LabStatus,
    Progress,
    ServiceStatus,
    State,
    is_node,
)

START_SECONDS = 120.0
"""Deadline for one service to become healthy. Measured on 2 cores: head 8 s, worker 5 s, JupyterLab 4 s."""

STOP_SECONDS = 5.0
"""Grace of a service at `down`."""

POLL_SECONDS = 0.1
LOCK_PATIENCE_SECONDS = START_SECONDS
"""How long to wait for another labctl that starts a service of this lab or chooses ports for another."""

NODE_MEMORY_SHARE = 0.8
"""Share of the host's memory that all nodes together offer to Ray's scheduler."""


class LocalRuntime(Runtime):
    """One lab of plain processes. All state is in files below `home()/<lab>`."""

    kind = "local"

    def __init__(
        self,
        lab: str,
        folder: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`folder` is where the lab keeps its things; by default its folder in `home()`."""
        super().__init__(lab)
        self._folder = folder or home() / lab
        # Named after the folder: labs of equal name in two homes must not share it.
        short = hashlib.sha256(str(self._folder.absolute()).encode()).hexdigest()[:8]
        self._layout = Layout(self._folder, Path("/tmp") / f"raylab-{os.getuid()}" / short)
        self._clock, self._sleep = clock, sleep

    # The whole lab

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """See Runtime.up. Installs what the services need the first time (SetupError when it cannot)."""
        environment.ensure("local")
        make_private(self._folder)
        with lock(self._folder / "lock", f"lab {self.lab}"):
            current = self._load()
            if current is not None and not self._anything_alive(current):
                current = None
            if current is not None and not current.spec.same_lab(spec):
                raise RefusedError(
                    f"lab {self.lab} is up with other settings ({describe(current.spec)})",
                    f"keep them, or `labctl down` first to start it with {describe(spec)}",
                )
            if current is None:
                current = self._reserve(spec)
            self._boot(current, on_progress)
        return self.status()

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """See Runtime.down. Also ends processes that carry the lab's mark but stand in no state file."""
        if not self._folder.exists():
            return ()
        with lock(self._folder / "lock", f"lab {self.lab}"):
            try:
                current = self._load()
            except ServiceError:
                current = None
            leaders = dict(current.leaders) if current else {}
            names = {*leaders, STORE, HEAD, JUPYTER, PROMETHEUS, *self._marked()}
            # Clients first, then the nodes that depend on the head, then the head, the store last.
            order = sorted(names, key=lambda name: (name == STORE, name == HEAD, is_node(name), name))
            begin = self._clock()
            stopped = []
            for name in order:
                alive = processes.members(leaders.get(name), self._layout.mark(name))
                if not alive:
                    continue
                on_progress(Progress(name, State.RUNNING, "stopping", self._clock() - begin))
                grace = 0.0 if is_node(name) else STOP_SECONDS
                processes.end(leaders.get(name), self._layout.mark(name), grace=grace)
                stopped.append(name)
                on_progress(Progress(name, State.EXITED, "stopped", self._clock() - begin))
            shutil.rmtree(self._layout.ray_temporary, ignore_errors=True)
            (self._folder / state.FILE).unlink(missing_ok=True)
            if volumes:
                for entry in self._folder.iterdir():
                    if entry.name == "lock":
                        continue
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        if volumes:
            shutil.rmtree(self._folder)
        return tuple(stopped)

    def status(self) -> LabStatus:
        """See Runtime.status."""
        notes: tuple[str, ...] = ()
        try:
            current = self._load()
        except ServiceError as error:
            current, notes = None, (error.message,)
        if current is None:
            return LabStatus(self.lab, self.kind, False, (), LabSpec(self.lab).gpu, notes)
        if current.stale:
            notes = (
                "the machine was rebooted since `up`; `labctl up` starts the lab again, with its objects",
            )
        plan = self._plan(current)
        nodes = self._nodes(plan)
        found = tuple(self._service_status(plan, current, name, nodes) for name in plan.services)
        up = any(s.state not in (State.ABSENT, State.EXITED) for s in found)
        return LabStatus(self.lab, self.kind, up, found, current.spec.gpu, (*current.notes, *notes))

    def spec(self) -> LabSpec:
        """See Runtime.spec."""
        return self._up_state().spec

    def endpoints(self) -> Endpoints:
        """See Runtime.endpoints."""
        plan = self._plan(self._up_state())
        return Endpoints(
            dashboard=plan.url("dashboard"),
            gcs=f"{ports.LOOPBACK}:{plan.ports['gcs']}",
            s3=plan.url("s3"),
            credentials=plan.secrets.store,
            ray_token=plan.secrets.ray_token,
            ray_token_file=str(self._layout.secrets / RAY_FILE),
            jupyter=f"{plan.url('jupyter')}/lab?token={plan.secrets.jupyter_token}",
            prometheus=plan.url("prometheus") if plan.prometheus else "",
        )

    def client_environment(self) -> dict[str, str]:
        """See Runtime.client_environment. On this runtime a shell can be a driver too: `ray.init()` works."""
        return services.client_environment(self._plan(self._up_state()))

    # One service

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """See Runtime.logs."""
        current = self._load()
        if current is None:
            raise LabDownError(f"lab {self.lab} is not up", "`labctl up` starts it")
        self._known(current, service)
        return self._lines(service, follow, tail)

    def kill(self, service: str) -> None:
        """See Runtime.kill."""
        current = self._running(service)
        processes.end(current.leaders.get(service), self._layout.mark(service), grace=0)

    def stop(self, service: str, *, timeout: float = 10.0) -> None:
        """See Runtime.stop."""
        current = self._running(service)
        processes.end(current.leaders.get(service), self._layout.mark(service), grace=timeout)

    def pause(self, service: str) -> None:
        """See Runtime.pause."""
        current = self._running(service)
        leader, mark = current.leaders.get(service), self._layout.mark(service)
        for _ in range(3):  # a process made between the look and the signal is caught by the next look
            processes.send(processes.members(leader, mark), signal.SIGSTOP)
            if processes.frozen(processes.members(leader, mark)):
                return

    def resume(self, service: str) -> None:
        """See Runtime.resume."""
        current = self._up_state()
        self._known(current, service)
        found = processes.members(current.leaders.get(service), self._layout.mark(service))
        processes.send(found, signal.SIGCONT)

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        """See Runtime.start."""
        self._known(self._up_state(), service)
        with lock(self._folder / "start.lock", f"starting {service}", patience=LOCK_PATIENCE_SECONDS):
            current = self._up_state()
            plan = self._plan(current)
            found = self._service_status(plan, current, service, self._nodes(plan))
            if found.state in (State.HEALTHY, State.PAUSED):
                return
            identity = current.leaders.get(service)
            if found.state is State.EXITED or identity is None or is_node(service):
                # What is left of a node that lost its cluster cannot be revived; it makes room.
                processes.end(identity, self._layout.mark(service), grace=0)
                current = self._spawn(plan, current, service)
                identity = current.leaders[service]
            if wait:  # with the lock: two raylets must not start at the same instant
                self._await(plan, service, identity, on_progress, self._clock())

    # Inside

    def _load(self) -> LabState | None:
        return state.load(self._folder)

    def _up_state(self) -> LabState:
        current = self._load()
        if current is None or not self._anything_alive(current):
            raise LabDownError(f"lab {self.lab} is not up", "`labctl up` starts it")
        return current

    def _running(self, service: str) -> LabState:
        current = self._up_state()
        self._known(current, service)
        if not processes.members(current.leaders.get(service), self._layout.mark(service)):
            raise LabDownError(f"{service} is not running", f"`labctl restart {service}` starts it")
        return current

    def _known(self, current: LabState, service: str) -> None:
        names = self._plan(current).services
        if service not in names:
            raise NotFoundError(f"lab {self.lab} has no service {service!r}", f"it has: {', '.join(names)}")

    def _anything_alive(self, current: LabState) -> bool:
        return not current.stale and any(processes.find(identity) for identity in current.leaders.values())

    def _marked(self) -> set[str]:
        """Services of this lab that run without standing in the state file, by their mark."""
        import psutil

        names = set()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                folder, _, name = process.environ().get(processes.MARK, "").rpartition(":")
                if folder == str(self._folder):
                    names.add(name)
        return names

    def _plan(self, current: LabState) -> Plan:
        import psutil

        return Plan(
            spec=current.spec,
            ports=current.ports,
            layout=self._layout,
            secrets=self._secrets(),
            store=current.store,
            minio=shutil.which("minio") or "minio",
            prometheus=(shutil.which("prometheus") or "prometheus") if "prometheus" in current.ports else "",
            memory_bytes=int(psutil.virtual_memory().total * NODE_MEMORY_SHARE / (current.spec.workers + 1)),
        )

    def _secrets(self) -> Secrets:
        return load_or_make(self._layout.secrets)

    def _nodes(self, plan: Plan) -> Sequence[Node] | None:
        """The cluster's nodes; none when Ray does not answer, so that nobody asks again for every service."""
        try:
            return RayApi(plan.url("dashboard"), plan.secrets.ray_token).nodes()
        except ClusterError:
            return ()

    def _service_status(
        self, plan: Plan, current: LabState, service: str, nodes: Sequence[Node] | None
    ) -> ServiceStatus:
        url = {
            STORE: plan.url("s3"),
            HEAD: plan.url("dashboard"),
            JUPYTER: plan.url("jupyter"),
        }.get(service, plan.url("prometheus") if service == PROMETHEUS else "")
        identity = current.leaders.get(service)
        if identity is None:
            return ServiceStatus(service, State.ABSENT, "not started", url)
        process = None if current.stale else processes.find(identity)
        if process is None:
            return ServiceStatus(service, State.EXITED, "its process has ended", url)
        if processes.frozen([process]):
            return ServiceStatus(service, State.PAUSED, "its processes are frozen", url, identity.pid)
        ready = readiness.probe(plan, service, after=identity.started_at, nodes=nodes)
        detail = ready.detail
        if service == STORE and ready.ready:
            detail = "MinIO" if plan.store == "minio" else "moto stands in for MinIO"
        return ServiceStatus(
            service, State.HEALTHY if ready.ready else State.RUNNING, detail, url, identity.pid
        )

    def _reserve(self, spec: LabSpec) -> LabState:
        """Choose ports and the S3 server, and write them down before anything starts."""
        import psutil

        wanted = dict(spec.ports)
        prometheus = shutil.which("prometheus")
        names = ["dashboard", "gcs", "client", "s3", "jupyter", *(["prometheus"] if prometheus else [])]
        for name in wanted:
            if name not in names:
                why = "no `prometheus` on PATH" if name == "prometheus" else "the local runtime has none"
                raise UnsupportedError(f"--port {name}: this lab runs no {name} ({why})", "leave it out")
        with lock(self._folder.parent / "ports.lock", "choosing ports", patience=LOCK_PATIENCE_SECONDS):
            reserved = self._reserved_elsewhere()
            chosen: dict[str, int] = {}
            for name in sorted(names, key=lambda name: name not in wanted):
                chosen[name] = ports.choose(name, wanted.get(name), {*reserved, *chosen.values()})
            notes = []
            moto_has_objects = any(self._layout.objects("moto").glob("*"))
            store = "minio" if shutil.which("minio") and not moto_has_objects else "moto"
            if store == "moto":
                why = "it holds this lab's objects" if shutil.which("minio") else "no `minio` on PATH"
                notes.append(f"S3 server: moto, standing in for MinIO ({why}); objects are kept on disk")
            if not prometheus:
                notes.append("prometheus: left out (no `prometheus` on PATH)")
            notes.append("grafana: left out (the local runtime has none)")
            self._secrets()
            current = LabState(spec, chosen, psutil.boot_time(), store, notes=tuple(notes))
            state.save(self._folder, current)
        return current

    def _reserved_elsewhere(self) -> set[int]:
        reserved: set[int] = set()
        for path in self._folder.parent.glob(f"*/{state.FILE}"):
            if path.parent != self._folder:
                with contextlib.suppress(ServiceError):
                    other = state.load(path.parent)
                    starting = other is not None and not other.leaders and not other.stale
                    if other is not None and (starting or self._anything_alive(other)):
                        reserved.update(other.ports.values())
        return reserved

    def _boot(self, current: LabState, on_progress: OnProgress) -> None:
        """Start what is not healthy; on any failure stop what this call started."""
        plan = self._plan(current)
        begin = self._clock()
        nodes = self._nodes(plan) if current.leaders else ()
        todo = [
            name
            for name in plan.services
            if self._service_status(plan, current, name, nodes).state is not State.HEALTHY
        ]
        started: list[str] = []
        shutil.rmtree(self._layout.ray_temporary, ignore_errors=True) if HEAD in todo else None
        try:
            make_private(self._layout.objects(plan.store))
            make_private(self._layout.ray_temporary)
            if plan.prometheus:
                write_private(self._folder / "prometheus.yml", services.prometheus_config(plan))
            waiting: list[str] = []
            for name in todo:
                processes.end(current.leaders.get(name), self._layout.mark(name), grace=0)
                started.append(name)
                current = self._spawn(plan, current, name)
                on_progress(Progress(name, State.STARTING, "", self._clock() - begin))
                if is_node(name):  # raylets that start at the same instant on one host race for ports
                    self._await(plan, name, current.leaders[name], on_progress, begin)
                else:
                    waiting.append(name)
            for name in waiting:
                self._await(plan, name, current.leaders[name], on_progress, begin)
            self._make_bucket(plan)
        except BaseException:
            with _no_interrupt():
                for name in reversed(started):
                    processes.end(current.leaders.get(name), self._layout.mark(name), grace=0)
                    current = current.without_leader(name)
                if current.leaders:
                    state.save(self._folder, current)
                else:
                    (self._folder / state.FILE).unlink(missing_ok=True)
                    shutil.rmtree(self._layout.ray_temporary, ignore_errors=True)
            raise

    def _make_bucket(self, plan: Plan) -> None:
        from lab.objectstore import ObjectStore

        ObjectStore(plan.url("s3"), plan.secrets.store, REGION).ensure_bucket(BUCKET)

    def _spawn(self, plan: Plan, current: LabState, service: str) -> LabState:
        """Start one process and write its identity down, with Ctrl-C held back in between."""
        command = plan.command(service)
        with _no_interrupt():
            try:
                identity = processes.spawn(
                    command.argv, command.environment, self._layout.log(service), command.cwd
                )
            except OSError as error:
                raise ServiceError(f"{service} could not be started: {error}") from error
            current = current.with_leader(service, identity)
            state.save(self._folder, current)
        return current

    def _await(
        self, plan: Plan, service: str, identity: Identity, on_progress: OnProgress, begin: float
    ) -> None:
        deadline = self._clock() + START_SECONDS
        while True:
            ready = readiness.probe(plan, service, after=identity.started_at)
            if ready.ready:
                on_progress(Progress(service, State.HEALTHY, ready.detail, self._clock() - begin))
                return
            if processes.find(identity) is None:
                raise ServiceError(
                    f"{service} ended while starting. Its last lines:\n{self._last_lines(service)}",
                    f"the whole log: {self._layout.log(service)}",
                )
            if self._clock() >= deadline:
                raise WaitTimeoutError(
                    f"{service} is not healthy after {START_SECONDS:g} s: {ready.detail}. "
                    f"Its last lines:\n{self._last_lines(service)}",
                    f"the whole log: {self._layout.log(service)}",
                )
            self._sleep(POLL_SECONDS)

    def _last_lines(self, service: str, count: int = 12) -> str:
        return "\n".join(f"  {line}" for line in self._lines(service, False, count))

    def _lines(self, service: str, follow: bool, tail: int | None) -> Iterator[str]:
        path = self._layout.log(service)
        if not path.exists():
            return
        with path.open(encoding="utf-8", errors="replace") as stream:
            yield from (line.rstrip("\n") for line in (deque(stream, tail) if tail is not None else stream))
            partial = ""
            while follow:
                partial += stream.readline()
                if partial.endswith("\n"):
                    yield partial.rstrip("\n")
                    partial = ""
                    continue
                try:
                    if self.status().service(service) is None:
                        return
                except LabError:
                    return
                self._sleep(0.3)


def describe(spec: LabSpec) -> str:
    """A lab's settings in a few words."""
    stock = ", stock Ray settings" if spec.stock_ray else ""
    return f"{spec.workers} workers, {spec.cpus_per_worker} CPUs each, GPU {spec.gpu.vendor.value}{stock}"


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Hold Ctrl-C back for a moment; it arrives at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[object] = []
    previous = signal.signal(signal.SIGINT, lambda *args: arrived.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if arrived:
        raise KeyboardInterrupt
