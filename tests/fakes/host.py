"""The machine under the fake runtime: its clock, its labs and their processes, its disk and ports."""

from __future__ import annotations

import heapq
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from lab.cluster.api import Node
from lab.errors import PortTakenError
from lab.runtime.base import Execution, Feature
from lab.services import HEAD, SERVICES, WORKER, is_node, is_worker, ports_of, row
from lab.topology import LabSpec, ServiceStatus, State

NODE_SECONDS = 1.0
"""Time from a node's falling silent (killed, frozen or cut off) to the cluster's declaring it dead."""

BACK_SECONDS = 0.5
"""Time from a crash to the new process."""

FIRST_FREE_PORT = 20_000
USUAL = tuple(service for service in SERVICES if not service.optional and service.name != WORKER)
PORTS = ports_of((program for program in USUAL if LabSpec().has(program)), scraped=False)


class FakeClock:
    """Seconds that pass only in `sleep`, which also runs what `after` scheduled."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        """`now` is in seconds since the epoch."""
        self.now = now
        self.slept: list[float] = []
        """Seconds of each `sleep`."""
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()

    def __call__(self) -> float:
        return self.now

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Run `action` once that much time has passed."""
        heapq.heappush(self._due, (self.now + seconds, next(self._order), action))

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.slept.append(seconds)
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            at, _, action = heapq.heappop(self._due)
            self.now = max(self.now, at)
            action()
        self.now = max(self.now, end)

    @property
    def anything_due(self) -> bool:
        """True when a scheduled action is still to come."""
        return bool(self._due)


@dataclass(frozen=True)
class Call:
    """One call of a runtime's method: on which lab, which service (or empty), when (the clock's seconds)."""

    lab: str
    method: str
    service: str = ""
    at: float = 0.0


@dataclass
class Process:
    """The process of a service, healthy after `polls` more polls; its node fell silent at `silent_since`."""

    pid: int
    polls: int
    detail: str = ""
    alive: bool = True
    paused_at: float | None = None
    silent_since: float | None = None
    node_id: str = ""


@dataclass
class LabState:
    """The services of one lab, and its cluster's node list."""

    spec: LabSpec
    ports: Mapping[str, int]
    clock: FakeClock
    processes: dict[str, Process] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    """Node id -> node, oldest first. Lost with the head, which keeps it, but for a lab with `gcs_ft`."""
    cut: set[str] = field(default_factory=set)
    """Services that are cut off the network."""
    impaired: dict[str, dict[str, float]] = field(default_factory=dict)
    """Service -> how its network is slowed down."""
    training_key: bool = True
    """True when the store accepts the training key."""

    @property
    def services(self) -> tuple[str, ...]:
        """The services of the lab, in the order of starting."""
        usual = (program.name for program in USUAL if self.spec.has(program))
        return (*usual, *self.spec.worker_services)

    @property
    def up(self) -> bool:
        """True when anything of the lab runs."""
        return any(process.alive for process in self.processes.values())

    def state(self, service: str) -> State:
        """The state of the service now."""
        process = self.processes.get(service)
        if process is None:
            return State.ABSENT
        if not process.alive:
            return State.EXITED
        if process.paused_at is not None:
            return State.PAUSED
        if process.polls:
            return State.STARTING
        if service in self.cut or (is_node(service) and not self._join(service, process)):
            return State.RUNNING
        return State.HEALTHY

    def status(self, service: str) -> ServiceStatus:
        """The same with its reason, and the process id of what runs."""
        state = self.state(service)
        process = self.processes.get(service)
        details = {
            State.ABSENT: "not started",
            State.STARTING: "not ready yet",
            State.PAUSED: "its processes are frozen",
            State.RUNNING: "cut off the network" if service in self.cut else "its node is not alive in Ray",
            State.EXITED: process.detail if process else "",
        }
        port = row(service).url_port
        return ServiceStatus(
            service,
            state,
            details.get(state, ""),
            self.url(port) if port else "",
            process.pid if process and process.alive else None,
        )

    def url(self, port: str) -> str:
        """The loopback URL of a named port."""
        return f"http://127.0.0.1:{self.ports[port]}"

    def end(self, service: str, detail: str, *, goodbye: bool = False) -> None:
        """End what runs the service. Its node falls silent, or with `goodbye` leaves the cluster at once."""
        process = self.processes.get(service)
        if process is None or not process.alive:
            return
        process.alive, process.detail = False, detail
        process.paused_at, process.silent_since = None, process.silent_since or self.clock()
        if service == HEAD and not self.spec.gcs_ft:
            self.nodes.clear()
        elif goodbye:
            self._bury(process, "the node was stopped")

    def spawn(self, service: str, pid: int, polls: int) -> None:
        """Replace what runs the service by a new process, which is healthy after `polls` polls."""
        self.end(service, "replaced")
        if service in self.processes:
            self._bury(self.processes[service], "the node was replaced")
        self.cut.discard(service)
        self.impaired.pop(service, None)
        self.processes[service] = Process(pid, polls)

    def resume(self, service: str) -> None:
        """Wake a paused service. As in Ray, a node that was declared dead meanwhile ends when it wakes."""
        self.processes[service].paused_at = None
        self._heard_again(service, "its node was declared dead while it was paused")

    def disconnect(self, service: str) -> None:
        """Cut a service off. Its node falls silent."""
        self.cut.add(service)
        process = self.processes[service]
        process.silent_since = process.silent_since or self.clock()

    def reconnect(self, service: str) -> None:
        """Undo `disconnect`. As in Ray, a node that was declared dead meanwhile ends itself."""
        self.cut.discard(service)
        process = self.processes.get(service)
        if process is not None and process.alive:
            self._heard_again(service, "its node was declared dead while it was cut off")

    def _heard_again(self, service: str, detail: str) -> None:
        process = self.processes[service]
        if process.paused_at is not None or service in self.cut:
            return
        self.node_list()
        process.silent_since = None
        node = self.nodes.get(process.node_id)
        if is_worker(service) and process.node_id and not (node and node.alive):
            process.alive, process.detail = False, detail

    def node_list(self) -> tuple[Node, ...]:
        """The cluster's nodes, the dead ones included, oldest first."""
        self._bury_silent()
        for service in (HEAD, *self.spec.worker_services):
            self.state(service)  # a node joins when its service is ready
        return tuple(self.nodes.values())

    def _join(self, service: str, process: Process) -> bool:
        """True when the service's node is in the cluster; a fresh one joins now if there is a cluster."""
        head = self.processes.get(HEAD)
        if head is None or not head.alive or head.paused_at is not None or head.polls:
            return False
        if not process.node_id and (service in self.cut or HEAD in self.cut):
            return False
        if not process.node_id:
            process.node_id = f"{process.pid:056x}"
            resources = {"CPU": 0.0} if service == HEAD else {"CPU": float(self.spec.cpus_per_worker)}
            if self.spec.gpu.gpu_of(service):
                resources["GPU"] = 1.0
            self.nodes[process.node_id] = Node(
                process.node_id, service, True, service == HEAD, resources, self.clock(), None, ""
            )
        node = self.nodes.get(process.node_id)
        return node is not None and node.alive

    def _bury_silent(self) -> None:
        for process in self.processes.values():
            if process.silent_since is not None and self.clock() >= process.silent_since + NODE_SECONDS:
                self._bury(process, "the node did not answer")

    def _bury(self, process: Process, reason: str) -> None:
        node = self.nodes.get(process.node_id)
        if node is not None and node.alive:
            self.nodes[node.node_id] = replace(node, alive=False, ended_at=self.clock(), reason=reason)


@dataclass
class FakeHost:
    """A machine. What is public here is for tests to read and to arrange."""

    clock: FakeClock = field(default_factory=FakeClock)
    taken: dict[int, str] = field(default_factory=dict)
    """Port -> who holds it, apart from the labs."""
    journal: list[Call] = field(default_factory=list)
    """Every call of a runtime's method on this machine, in order."""
    labs: dict[str, LabState] = field(default_factory=dict)
    """The labs that `up` started and `down` did not stop."""
    objects: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Lab -> key -> what its bucket holds."""
    logs: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """(lab, service) -> lines."""
    failures: dict[tuple[str, str], BaseException] = field(default_factory=dict)
    delays: dict[tuple[str, str], int] = field(default_factory=dict)
    answers: dict[tuple[str, str, tuple[str, ...]], Execution] = field(default_factory=dict)
    """(lab, service, command) -> how it ends."""
    lacking: dict[Feature, str] = field(default_factory=dict)
    """Feature that the services lack -> the reason."""
    pids: Iterator[int] = field(default_factory=lambda: itertools.count(1001))

    @cached_property
    def folder(self) -> Path:
        """A folder of its own on the real disk, deleted with the host."""
        made = Path(tempfile.mkdtemp(prefix="raylab-fake-"))
        weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return made

    def choose_ports(self, spec: LabSpec) -> dict[str, int]:
        """A port for every name: the wanted one, else a free one. Raises PortTakenError."""
        held = dict(self.taken)
        for name, lab in self.labs.items():
            held.update(dict.fromkeys(lab.ports.values(), f"lab {name}"))
        wanted = dict(spec.ports)
        for name, port in wanted.items():
            if port in held:
                raise PortTakenError(
                    f"port {port} ({name}) is in use by {held[port]}",
                    f"choose another one: --port {name}=NUMBER",
                )
        free = (p for p in itertools.count(FIRST_FREE_PORT) if p not in held and p not in wanted.values())
        of_class = (("gateway", spec.classroom), ("proxy", spec.address), ("hub", spec.hub))
        names = (*PORTS, *(name for name, wanted in of_class if wanted))
        return {name: wanted.get(name) or next(free) for name in names}
