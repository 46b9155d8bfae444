"""A machine for the local runtime on which nothing really runs."""

from __future__ import annotations

import itertools
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from lab.cluster.api import Node
from lab.errors import ClusterError
from lab.host import environment, listening
from lab.host.http import Reply
from lab.host.listening import Listening
from lab.runtime import ports
from lab.runtime.health import World
from lab.runtime.local import boot, forks, processes, state
from lab.runtime.local.layout import Layout
from lab.runtime.local.processes import Identity
from lab.runtime.local.runtime import LocalRuntime
from lab.services import HEAD, REDIS, SERVICES, is_node
from lab.store import setup
from lab.topology import Credentials, LabSpec, Struck
from tests.fakes import FakeClock
from tests.unit.runtime.recorded import recorded_ports

BOOTED_AT = 1_700_000_000.0
OK = Reply(200, {}, b"")


@dataclass
class FakeProcess:
    """A process that carries a mark; `leader` if it was spawned, not made by one that was."""

    pid: int
    started_at: float
    mark: str
    frozen: bool = False
    leader: bool = True

    def environ(self) -> dict[str, str]:
        return {processes.MARK: self.mark}


@dataclass
class Machine:
    """Its processes, its clock, and what is to go wrong."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(BOOTED_AT + 1000))
    running: dict[int, FakeProcess] = field(default_factory=dict)
    journal: list[tuple[str, str]] = field(default_factory=list)
    """(spawn | end | TERM | STOP | CONT | bucket, service)"""
    graces: dict[str, float] = field(default_factory=dict)
    unready: set[str] = field(default_factory=set)
    pages: dict[str, Reply] = field(default_factory=dict)
    """Service -> how it answers when it is asked for its health."""
    dies: set[str] = field(default_factory=set)
    """Services whose process ends at once."""
    exit_codes: dict[str, int] = field(default_factory=dict)
    last_words: dict[str, str] = field(default_factory=dict)
    """What a service writes to its log when it is started, instead of a greeting."""
    silent: bool = False
    """Whether Ray's dashboard does not answer."""
    boot: str = "boot-1"
    on_spawn: dict[str, Callable[[], None]] = field(default_factory=dict)
    on_probe: dict[str, Callable[[], None]] = field(default_factory=dict)
    on_bucket: Callable[[], None] = lambda: None
    taken: set[int] = field(default_factory=set)
    listeners: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Port -> process ids, where they can be seen."""
    open_ports: list[Listening] = field(default_factory=list)
    programs: set[str] = field(default_factory=set)
    """What is on PATH."""
    fork_server: FakeProcess | None = None
    """It is no service, so it stands apart: neither in `running` nor in the journal."""
    forks: list[str] = field(default_factory=list)
    """What was done to it: spawn, end."""
    forks_fail: bool = False
    """Whether it ends as soon as it is started."""
    forks_silent: bool = False
    """Whether it runs and never listens."""
    orphans: set[str] = field(default_factory=set)
    """What a fork server that is gone has left: names, for processes."""
    _spawned_codes: dict[int, int] = field(default_factory=dict)
    pids: Any = field(default_factory=lambda: itertools.count(100))
    folders: list[Path] = field(default_factory=list)
    """Of the labs on it."""

    @property
    def now(self) -> float:
        return self.clock()

    def services(self, verb: str) -> list[str]:
        return [service for what, service in self.journal if what == verb]

    @property
    def alive(self) -> list[str]:
        """Services with a living leader, in order of their start."""
        return [p.mark.rpartition(":")[2] for p in self.running.values() if p.leader]

    def pid_of(self, service: str) -> int:
        return next(pid for pid, p in self.running.items() if p.mark.endswith(f":{service}"))

    def die(self, service: str) -> None:
        """End a service's leader as if by itself."""
        del self.running[self.pid_of(service)]

    # In place of lab.runtime.local.processes

    def spawn(self, argv: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path) -> Identity:
        if processes.MARK not in environment:
            return self._spawn_forks(Path(argv[-1]))
        mark = environment[processes.MARK]
        service = mark.rpartition(":")[2]
        self.journal.append(("spawn", service))
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as output:
            output.write(self.last_words.get(service, f"{service} says hello\n"))
        process = FakeProcess(next(self.pids), self.now, mark)
        if service not in self.dies:
            self.running[process.pid] = process
        if service in self.exit_codes:
            self._spawned_codes[process.pid] = self.exit_codes[service]
        self.on_spawn.get(service, lambda: None)()
        return Identity(process.pid, process.started_at, process.started_at)

    def _spawn_forks(self, folder: Path) -> Identity:
        process = FakeProcess(next(self.pids), self.now, "")
        self.forks.append("spawn")
        if not self.forks_fail:
            self.fork_server = process
            if not self.forks_silent:
                (folder / "node.sock").touch()
        return Identity(process.pid, process.started_at, process.started_at)

    def end_forks(self, layout: Layout) -> None:
        if self.fork_server is not None:
            self.forks.append("end")
        self.fork_server = None
        shutil.rmtree(layout.forks, ignore_errors=True)

    def find(self, identity: Identity) -> FakeProcess | None:
        process = self.running.get(identity.pid)
        if self.fork_server is not None and self.fork_server.pid == identity.pid:
            process = self.fork_server
        return process if process is not None and process.started_at == identity.started_at else None

    def exit_code(self, identity: Identity) -> int | None:
        return self._spawned_codes.get(identity.pid) if identity.pid not in self.running else None

    def members(self, leader: Identity | None, mark: str) -> list[FakeProcess]:
        return [p for p in self.running.values() if p.mark == mark]

    def end(self, leader: Identity | None, mark: str, *, grace: float) -> Struck:
        members = self.members(leader, mark)
        for process in members:
            del self.running[process.pid]
        if members:
            service = mark.rpartition(":")[2]
            self.journal.append(("end", service))
            self.graces[service] = grace
        return Struck(self.clock(), self.clock())

    def send(self, members: Sequence[FakeProcess], number: signal.Signals) -> Struck:
        for process in members:
            process.frozen = number == signal.SIGSTOP or (process.frozen and number != signal.SIGCONT)
            self.journal.append((number.name.removeprefix("SIG"), process.mark.rpartition(":")[2]))
        return Struck(self.clock(), self.clock())

    def frozen(self, members: Sequence[FakeProcess]) -> bool:
        return bool(members) and all(process.frozen for process in members)

    def service_of(self, pid: int, folder: Path) -> str:
        process = self.running.get(pid)
        of, _, name = process.mark.rpartition(":") if process else ("", "", "")
        return name if of == str(folder) else ""

    # In place of what answers on ports

    def _serves(self, service: str) -> bool:
        self.on_probe.get(service, lambda: None)()
        return service not in self.unready and service in self.alive

    def http(self, url: str, headers: Mapping[str, str]) -> Reply | None:
        del headers
        name = self._port_name(urlsplit(url).port or 0)
        if name == "dashboard":
            return None if self.silent else OK
        service = next(service.name for service in SERVICES for port in service.ports if port.name == name)
        return self.pages.get(service, OK) if self._serves(service) else None

    def _port_name(self, number: int) -> str:
        labs = (recorded_ports(folder, state.FILE, state.load) for folder in self.folders)
        return next(name for ports in labs for name, port in ports.items() if port == number)

    def nodes(self, url: str, token: str) -> tuple[Node, ...]:
        assert self._port_name(urlsplit(url).port or 0) == "dashboard"
        assert token
        nodes = []
        for process in list(self.running.values()):
            service = process.mark.rpartition(":")[2]
            if is_node(service) and process.leader and self._serves(service):
                began = process.started_at
                nodes.append(Node(f"node-{service}", service, True, service == HEAD, {}, began, None, ""))
        if self.silent:
            raise ClusterError("does not answer")
        return tuple(nodes)

    def runtime(self, folder: Path, name: str = "raylab") -> LocalRuntime:
        """A new runtime, as another shell would make, that puts nothing outside `folder`."""
        world = World(
            clock=self.clock,
            http=self.http,
            nodes=self.nodes,
            redis=lambda _: "" if self._serves(REDIS) else "does not answer",
        )
        runtime = LocalRuntime(name, folder / name, world=world)
        runtime._layout = Layout(folder / name, folder / f"ray-{name}", folder / f"tmp-{name}")
        self.folders.append(folder / name)
        return runtime

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("spawn", "find", "exit_code", "members", "end", "send", "frozen"):
            patch.setattr(processes, name, getattr(self, name))
        patch.setattr(forks, "end", self.end_forks)
        patch.setattr(processes, "orphans_of", lambda folder: list(self.orphans))
        patch.setattr(processes, "kill_all", lambda look: self.orphans.difference_update(look()))
        patch.setattr(boot, "POLL_SECONDS", 2.0)  # its clock costs nothing, a thousand looks would
        for module in (processes, state):
            patch.setattr(module, "boot_id", lambda: self.boot)
        patch.setattr(ports, "is_free", lambda port: port not in self.taken)
        patch.setattr(ports, "listeners", lambda port: self.listeners.get(port, ()))
        patch.setattr(listening, "listening", lambda: tuple(self.open_ports))
        patch.setattr(processes, "service_of", self.service_of)
        patch.setattr(ports, "holder", lambda port: f"holder of {port}")
        patch.setattr(psutil, "process_iter", lambda: list(self.running.values()))
        patch.setattr(psutil, "boot_time", lambda: BOOTED_AT)
        patch.setattr(
            shutil,
            "which",
            lambda name: f"/bin/{name}" if name in self.programs else None,
        )
        patch.setattr(environment, "program", lambda name: shutil.which(name) or "")

        def set_up(url: str, root: Credentials, key: Credentials) -> None:
            assert url.startswith("http://127.0.0.1:")
            assert root != key
            self.journal.append(("bucket", "ray"))
            self.on_bucket()

        patch.setattr(setup, "run", set_up)


SPEC = LabSpec(workers=2, cpus_per_worker=2)
