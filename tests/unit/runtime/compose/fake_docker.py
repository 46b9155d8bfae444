"""A Docker Engine in memory, with a clock, a Ray cluster in its containers, and a journal of what is done."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lab.cluster.api import Node
from lab.errors import ClusterError, EngineError, LabError
from lab.host.command import OnLine
from lab.host.http import Reply
from lab.runtime.compose import project, state
from lab.runtime.compose.causes import late_answer
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.images.model import ResolvedImages
from lab.runtime.compose.inspected import FOLDER_LABEL, LAB_LABEL, Container
from lab.runtime.compose.project import SETUP
from lab.runtime.compose.runtime import ComposeRuntime
from lab.runtime.compose.state import ComposeState
from lab.runtime.health import World
from lab.services import ALERTMANAGER, GRAFANA, HEAD, PORTS, is_node, is_worker, row, worker
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Struck, Vendor
from tests.fakes import FakeClock
from tests.unit.runtime.recorded import recorded_ports

LEFT_OUT = (ALERTMANAGER, GRAFANA)
STAND_INS = ResolvedImages((("LAB_IMAGE", "raylab/ray:1-cpu"),), ("offline.yaml",), LEFT_OUT, ("S3: moto",))
GAVE_UP = "Exception: The current node timed out during startup. This could happen because ..."
SLOW_SECONDS = 2.0
"""How long a service takes until it serves."""


def spec(name: str = "lab", workers: int = 2) -> LabSpec:
    """A lab with simulated GPUs."""
    gpus = tuple(GpuAssignment(worker(index)) for index in range(workers))
    return LabSpec(name, GpuPlan(Vendor.SIMULATED, gpus, "test"), workers, 2)


def lab_state(folder: Path, name: str = "lab", **changes: Any) -> ComposeState:
    """What an `up` with the stand-ins has written into `folder`."""
    wanted = spec(name)
    names = [port.name for port in PORTS.values() if port.published]
    ports = {port: 20_000 + number for number, port in enumerate(names) if port not in LEFT_OUT}
    files = project.files(wanted, ["offline.yaml"])
    made = replace(ComposeState(wanted, ports, files, {}, LEFT_OUT), **changes)
    state.save(folder, made)
    return made


OK = Reply(200, {}, b"")


@dataclass
class FakeDocker:
    """What a test arranges and reads."""

    clock: FakeClock = field(default_factory=FakeClock)
    down: bool = False
    busy: bool = False
    """True lets it answer no question in time."""
    old_compose: bool = False
    images: ResolvedImages = STAND_INS
    missing: LabError | None = None
    """Raised instead of finding images."""
    containers: dict[tuple[str, str], Container] = field(default_factory=dict)
    """(project, service) -> container."""
    volumes: set[str] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=dict)
    """Volume -> the folder of the lab it belongs to."""
    networks: set[str] = field(default_factory=set)
    journal: list[tuple[str, ...]] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    wrote: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """Service -> what it wrote, and when."""
    dies: dict[str, Container] = field(default_factory=dict)
    """Service -> how it ends as soon as it is started."""
    gives_up: dict[str, int] = field(default_factory=dict)
    """Node -> how often Ray gives it up after it was started."""
    patience: float = 30.0
    """Seconds after which Ray does."""
    refuses: dict[str, BaseException] = field(default_factory=dict)
    """Service -> what `docker start` fails with."""
    fails: dict[tuple[str, str], BaseException] = field(default_factory=dict)
    """(verb, service) -> what that fails with, each time."""
    pages: dict[str, Reply] = field(default_factory=dict)
    """Service -> how it answers when it is asked for its health."""
    publishes: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """Service -> address and port of the host for each port that it publishes once it runs."""
    never: set[str] = field(default_factory=set)
    """Services that run but never serve."""
    pythonless: set[str] = field(default_factory=set)
    """Services whose image has no Python."""
    helped: tuple[int, str] = (0, '{"delay": "no netem", "loss": "", "rate": ""}\n')
    """How a helper container ends: its exit code, and what it says."""
    ghosts: Sequence[Node] = ()
    """What Ray says instead of the truth."""
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def engine(self) -> DockerEngine:
        """The engine, as labctl sees it."""
        return FakeEngine(self)

    def runtime(self, folder: Path, name: str = "lab") -> ComposeRuntime:
        """A runtime over it, in which time passes only by sleeping."""
        return ComposeRuntime(
            name,
            folder,
            engine=self.engine(),
            world=World(clock=self.clock, http=self.http, nodes=self.list_nodes, environ={}),
            images=self.find_images,
        )

    def find_images(self, spec: LabSpec, environment: Mapping[str, str], fetch: bool) -> ResolvedImages:
        """The images of a lab."""
        del spec, environment, fetch
        if self.missing is not None:
            raise self.missing
        return self.images

    def add(self, lab: str, folder: Path | str, service: str, status: str = "paused", **labels: str) -> None:
        """A container of a lab."""
        marks = labels or {LAB_LABEL: lab, FOLDER_LABEL: str(folder)}
        self.containers[project.project_name(lab), service] = Container(
            f"{next(self.ids):064x}", service, status, started_at=self.clock(), labels=marks
        )

    def find(self, service: str, lab: str = "lab") -> Container:
        """A service's container."""
        return self.containers[project.project_name(lab), service]

    def give_up(self) -> None:
        """Let the nodes end whose time is over."""
        for container in list(self.containers.values()):
            over = self.clock() >= container.started_at + self.patience
            if container.state == "running" and over and self.gives_up.get(container.service, 0):
                self.gives_up[container.service] -= 1
                self.wrote.setdefault(container.service, []).append((self.clock(), GAVE_UP))
                self.change(container.id, state="exited", exit_code=1)

    def find_id(self, container: str) -> Container:
        """The container of that id."""
        return next(c for c in self.containers.values() if c.id == container)

    def change(self, container: str, **changes: Any) -> None:
        """Let a container be different."""
        for key, known in self.containers.items():
            if known.id == container:
                self.containers[key] = replace(known, **changes)

    def done(self, *verbs: str) -> list[tuple[str, ...]]:
        """What was done, with services for containers' ids."""
        return [call for call in self.journal if not verbs or call[0] in verbs]

    def serves(self, container: Container) -> bool:
        """Whether what runs in it has had the time it needs."""
        doomed = self.gives_up.get(container.service, 0) > 0
        ready = self.clock() >= container.started_at + SLOW_SECONDS and not doomed
        return container.state == "running" and ready and container.service not in self.never

    def http(self, url: str, headers: Mapping[str, str]) -> Reply | None:
        """A GET of a published port."""
        del headers
        port = int(url.split("/")[2].rpartition(":")[2])
        for container in self.containers.values():
            if container.state != "running":
                continue
            ports = recorded_ports(Path(container.labels.get(FOLDER_LABEL, "")), state.FILE, state.load)
            if ports.get(row(container.service).url_port) == port:
                return self.pages.get(container.service, OK) if self.serves(container) else None
        return None

    def list_nodes(self, dashboard: str, token: str) -> Sequence[Node]:
        """What Ray says: a worker joins when the head serves."""
        del token
        if self.http(dashboard, {}) is None:
            raise ClusterError(f"Ray's dashboard at {dashboard} does not answer")
        if self.ghosts:
            return self.ghosts
        head = next(c for c in self.containers.values() if c.service == HEAD)
        nodes = []
        for container in self.containers.values():
            name = container.service
            joined = not is_worker(name) or container.started_at >= head.started_at
            if is_node(name) and joined and self.serves(container):
                started = container.started_at + 0.5
                nodes.append(Node(f"node-{name}", name, True, name == HEAD, {}, started, None, ""))
        return nodes


class FakeEngine(DockerEngine):
    """The engine over a FakeDocker."""

    def __init__(self, fake: FakeDocker) -> None:
        super().__init__(("true",))
        self.fake = fake

    def check(self) -> None:
        self.check_engine()
        if self.fake.old_compose:
            raise EngineError("Compose 2.6.0 is too old: 2.20 is needed", "update it")

    def check_engine(self) -> None:
        if self.fake.down:
            raise EngineError("the Docker Engine is not running", "start it")
        if self.fake.busy:
            raise late_answer(30.0)

    def containers(self, project: str) -> tuple[Container, ...]:
        self.check_engine()
        self.fake.give_up()
        return tuple(c for (owner, _), c in self.fake.containers.items() if owner == project)

    def inspect(self, ids: Sequence[str]) -> tuple[Container, ...]:
        self.check_engine()
        return tuple(c for c in self.fake.containers.values() if c.id in ids)

    def struck(self, container: str, actions: Collection[str], around: Struck) -> Struck:
        del container, actions
        return around

    def volumes(self, project: str) -> dict[str, Mapping[str, str]]:
        names = [name for name in sorted(self.fake.volumes) if name.startswith(f"{project}_")]
        return {name: {FOLDER_LABEL: self.fake.owners.get(name, "")} for name in names}

    def networks(self, project: str) -> tuple[str, ...]:
        return tuple(name for name in self.fake.networks if name.startswith(f"{project}_"))

    def last_lines(self, container: str, count: int, since: float = 0.0) -> str:
        del count
        service = next(c.service for c in self.fake.containers.values() if c.id == container)
        written = (f"{line}\n" for at, line in self.fake.wrote.get(service, ()) if at >= since)
        return self.fake.logs.get(service, "") + "".join(written)

    def create(self, files: Sequence[Path], env_file: Path) -> None:
        del files
        folder = env_file.parent
        current = state.load(folder)
        assert current is not None
        lab = current.spec.name
        self.fake.journal.append(("create",))
        owner = project.project_name(lab)
        self.fake.networks.add(f"{owner}_lab")
        self.fake.volumes.add(f"{owner}_objects")
        self.fake.owners[f"{owner}_objects"] = str(folder)
        for service in (*project.services(current), SETUP):
            if (owner, service) not in self.fake.containers:
                self.fake.add(lab, folder, service, "created")

    def act(
        self, verb: str, names: Sequence[str], *options: str, grace: float = 0.0, gone: bool = False
    ) -> None:
        del grace
        if verb.startswith("network ") and verb != "network rm":
            network, name = names
            assert network in self.fake.networks
            service = self.fake.find_id(name).service
            self.fake.journal.append((verb, service, *options))
            self.fake.change(name, cut=verb == "network disconnect")
            return
        for name in names:
            self._act(verb, name, options, gone)

    def execute(
        self, container: str, argv: Sequence[str], timeout: float, on_line: OnLine | None = None
    ) -> tuple[int, str]:
        del argv, timeout, on_line
        known = self.fake.find_id(container)
        self.fake.journal.append(("execute", known.service))
        if known.service in self.fake.pythonless:
            return 127, "python: executable file not found in $PATH\n"
        restarts = known.restarts + 1
        if known.restart_policy == "on-failure":
            self.fake.change(container, started_at=self.fake.clock(), restarts=restarts)
        else:
            self.fake.change(container, state="exited", exit_code=137)
        return 137, ""

    def run_helper(
        self, options: Sequence[str], image: str, argv: Sequence[str], timeout: float
    ) -> tuple[int, str]:
        del timeout
        beside = next(o for o in options if o.startswith("--network=")).removeprefix("--network=")
        if beside != "none":
            beside = self.fake.find_id(beside.removeprefix("container:")).service
        self.fake.journal.append(("helper", beside, image, *argv[3:]))
        return self.fake.helped

    def _act(self, verb: str, name: str, options: tuple[str, ...], gone: bool) -> None:
        fake = self.fake
        if verb in ("network rm", "volume rm"):
            fake.journal.append(("remove", name))
            (fake.networks if verb == "network rm" else fake.volumes).remove(name)
            return
        service = next(c.service for c in fake.containers.values() if c.id == name)
        verb = "remove" if verb == "rm" else verb
        shown = [o.removeprefix("--time=") for o in options if verb in ("stop", "update")]
        fake.journal.append((verb, service, *shown))
        if (verb, service) in fake.fails:
            raise fake.fails[verb, service]
        if verb == "remove":
            assert options == ("--force",)
            fake.containers = {key: c for key, c in fake.containers.items() if c.id != name}
        elif verb == "start":
            self._start(name, service)
        elif verb == "update":
            fake.change(name, restart_policy=options[0].removeprefix("--restart="))
        elif verb in ("kill", "stop"):
            assert gone or fake.find_id(name).alive
            fake.change(name, state="exited", exit_code=137 if verb == "kill" else 0)
        else:
            fake.change(name, state={"pause": "paused", "unpause": "running"}[verb])

    def _start(self, container: str, service: str) -> None:
        if service in self.fake.refuses:
            raise self.fake.refuses.pop(service)
        self.fake.change(
            container,
            state="running",
            started_at=self.fake.clock(),
            exit_code=0,
            published=self.fake.publishes.get(service, ()),
        )
        if service == SETUP:
            self.fake.change(container, state="exited")
        if service in self.fake.dies:
            end = self.fake.dies.pop(service)
            self.fake.change(
                container, state=end.state, exit_code=end.exit_code, out_of_memory=end.out_of_memory
            )
