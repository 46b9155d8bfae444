"""The compose runtime: the lab as containers of a Docker Engine, one Compose project per lab."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from lab.cluster.api import Node
from lab.errors import (
    EngineError,
    LabDownError,
    LabError,
    NotFoundError,
    RefusedError,
    ServiceError,
    SetupError,
)
from lab.host.files import home, lock, make_private, remove
from lab.host.http import http_status
from lab.host.interrupts import held_back
from lab.host.secrets import RAY_FILE, Secrets, load_or_make
from lab.runtime import ports, statefile
from lab.runtime.base import Execution, Feature, OnProgress, Runtime, ignore_progress
from lab.runtime.compose import crash, network, project, readiness, reserve, state
from lab.runtime.compose.boot import LONGEST_SECONDS, Boot, Target
from lab.runtime.compose.ending import Acts
from lab.runtime.compose.engine import Container, Engine
from lab.runtime.compose.images.model import LAB_IMAGE, ResolvedImages, lab_image
from lab.runtime.compose.project_resources import Holdings
from lab.runtime.compose.readiness import Http, ListNodes, View, ray_nodes
from lab.runtime.compose.state import ENV_FILE, OVERRIDE_FILE, ComposeState
from lab.runtime.wait_known import all_settled, settled
from lab.topology import (
    HEAD,
    JUPYTER,
    STORE,
    Endpoints,
    LabSpec,
    LabStatus,
    Progress,
    ServiceStatus,
    State,
    Usage,
    Vendor,
    is_node,
)

LOCK_PATIENCE_SECONDS = LONGEST_SECONDS


FindImages = Callable[[LabSpec, Mapping[str, str]], ResolvedImages]
"""The images for a lab; the mapping has the variables that choose others than the pinned ones."""


def get_images(spec: LabSpec, environment: Mapping[str, str]) -> ResolvedImages:
    """The images for a lab; what is missing is pulled or built. Raises SetupError, UnsupportedError."""
    from lab.runtime.compose.images import ensure

    return ensure(spec, environment)


def find_images(spec: LabSpec, environment: Mapping[str, str]) -> ResolvedImages:
    """The images for a lab, of those that are here. Raises SetupError when one is missing."""
    from lab.runtime.compose.images import resolve

    found = resolve(spec, environment)
    if found.missing:
        names = ", ".join(need.name for need in found.missing)
        ways = "`labctl images pull`, `build`, `build --offline` (no registry needed), or `load FILE`"
        raise SetupError(f"images of the lab are missing: {names}", f"get them with {ways}")
    return found


class ComposeRuntime(Runtime):
    """One lab of containers. What it was started with is in files below `home()/<lab>`."""

    kind = "compose"

    def __init__(
        self,
        lab: str,
        folder: Path | None = None,
        *,
        engine: Engine | None = None,
        environment: Mapping[str, str] | None = None,
        get_images: FindImages = get_images,
        find_images: FindImages = find_images,
        http: Http = http_status,
        list_nodes: ListNodes = ray_nodes,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`folder` is where the lab keeps its things; by default its folder in `home()`.

        Of `environment`, by default the process's, the lab takes over the LAB_* variables for images, memory
        and workspace.
        """
        super().__init__(lab)
        self._folder = (folder or home() / lab).absolute()
        self._engine = engine or Engine()
        self._environment = os.environ if environment is None else environment
        self._get_images, self._find_images = get_images, find_images
        self._http, self._list_nodes = http, list_nodes
        self._clock, self._sleep = clock, sleep
        self._project = project.project_name(lab)
        self._abilities: Mapping[Feature, str] | None = None
        self._holdings = Holdings(self._engine, self._project, self._folder, clock)
        self._acts = Acts(self._engine, clock, sleep)

    # The whole lab

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """See Runtime.up. Raises EngineError before anything starts when Docker cannot be used."""
        self._engine.check()
        make_private(self._folder)
        with lock(self._folder / "lock", f"lab {self.lab}"):
            containers = self._holdings.containers()
            self._holdings.check_volumes()
            current = self._load()
            fresh = current is None or not any(c.alive for c in containers.values())
            if current is None or fresh:
                current = self._reserve(spec, containers, self._get_images)
            else:
                reserve.check_same(current, spec)
            try:
                self._boot_all(current, on_progress)
            except BaseException:
                if fresh:
                    with held_back(), contextlib.suppress(LabError):
                        self._clear()
                raise
        return self.status()

    def prepare(self, spec: LabSpec) -> tuple[str, ...]:
        """Choose ports, make secrets and files, start nothing; returns the `docker compose` call to use.

        For a lab that is up, the call is that of the lab as it is. Raises what `up` raises before it starts.
        """
        self._engine.check()
        make_private(self._folder)
        with lock(self._folder / "lock", f"lab {self.lab}"):
            containers = self._holdings.containers()
            self._holdings.check_volumes()
            current = self._load()
            if current is None or not any(c.alive for c in containers.values()):
                current = self._reserve(spec, containers, self._find_images)
            else:
                reserve.check_same(current, spec)
        return project.command_line(current, self._folder)

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """See Runtime.down. Goes by the labels of containers, so no file of the lab is needed."""
        if not self._folder.exists() and shutil.which(self._engine.call[0]) is None:
            return ()
        containers = self._holdings.containers()
        if volumes:
            self._holdings.check_volumes()
        if not (containers or self._folder.exists()):
            if volumes:
                self._holdings.remove_volumes()
            return ()
        make_private(self._folder)
        with lock(self._folder / "lock", f"lab {self.lab}"):
            stopped = self._holdings.stop(self._holdings.containers(), on_progress)
            with held_back():
                self._clear()
            if volumes:
                self._holdings.remove_volumes()
                for name in ("secrets", "lessons", state.FAILED):
                    shutil.rmtree(self._folder / name, ignore_errors=True)
                (self._folder / ports.FILE).unlink(missing_ok=True)
        if volumes:
            left = {entry.name for entry in self._folder.iterdir()}
            if left <= {"lock", "start.lock"}:  # the local runtime's objects may lie here too
                shutil.rmtree(self._folder)
        return stopped

    def status(self) -> LabStatus:
        """See Runtime.status. Where the engine does not answer, a note says so."""
        nothing = LabStatus(self.lab, self.kind, False, (), LabSpec(self.lab).gpu)
        try:
            current, notes = self._find()
            if current is None:
                return dataclasses.replace(nothing, notes=notes)
            containers = self._holdings.containers()
        except (EngineError, RefusedError) as error:
            hint = f"; {error.hint}" if error.hint else ""
            return dataclasses.replace(nothing, notes=(f"{error.message}{hint}",))
        names = project.services(current)
        if not any(containers[name].alive for name in names if name in containers):
            made = any(name in containers for name in names)
            if not made:
                return nothing
        secrets, problem = self._secrets()
        if problem:
            notes = (problem,)
        view = self._view_with(current, secrets)
        nodes, why = self._nodes(view, containers)
        found = tuple(
            readiness.service_status(view, name, containers.get(name), nodes, why) for name in names
        )
        setup = containers.get(project.SETUP)
        if setup is not None and setup.state == "exited" and setup.exit_code:
            notes = (
                *notes,
                f"{project.SETUP} failed with exit code {setup.exit_code}; `labctl up` repeats it",
            )
        up = any(s.state not in (State.ABSENT, State.EXITED) for s in found)
        return LabStatus(self.lab, self.kind, up, found, current.spec.gpu, (*current.notes, *notes))

    def kept(self) -> tuple[str, ...]:
        """See Runtime.kept: the store's volume, or its stand-in's. Raises EngineError, RefusedError."""
        found = self._holdings.check_volumes()
        return tuple(name for name in found if name.endswith(("_objects", "_objects-standin")))

    def spec(self) -> LabSpec:
        """See Runtime.spec."""
        return self._up()[0].spec

    def endpoints(self) -> Endpoints:
        """See Runtime.endpoints. `gcs` can be reached from the lab's own containers only."""
        current, _ = self._up()
        secrets, problem = self._secrets()
        if secrets is None:
            raise ServiceError(problem, "`labctl down`, then `labctl up` makes new ones")
        view = self._view_with(current, secrets)
        return Endpoints(
            dashboard=view.url(HEAD),
            gcs=f"{HEAD}:6379",
            s3=view.url(STORE),
            credentials=secrets.store,
            ray_token=secrets.ray_token,
            ray_token_file=str(self._folder / "secrets" / RAY_FILE),
            jupyter=f"{view.url(JUPYTER)}/lab?token={secrets.jupyter_token}",
            prometheus=view.url("prometheus"),
            grafana=view.url("grafana"),
            grafana_password=secrets.grafana_password,
        )

    def usage(self, services: Sequence[str]) -> dict[str, Usage]:
        """See Runtime.usage. Memory is left to Ray, which knows the containers' limits."""
        containers = self._holdings.containers().values()
        alive = {c.id: c.service for c in containers if c.alive and c.service in services}
        measured = self._engine.cpu_percent(tuple(alive))
        return {alive[container]: Usage(cpu) for container, cpu in measured.items() if container in alive}

    def missing(self, feature: Feature) -> str:
        """See Runtime.missing. What can be done to a network is tried out. Raises EngineError."""
        if feature in (Feature.MEMORY_LIMIT, Feature.SCRATCH_DISK):
            return ""
        if self._abilities is None:
            self._abilities = network.abilities(self._engine, self._helper_image())
        return self._abilities[feature]

    def folder(self) -> Path:
        """See Runtime.folder."""
        return self._folder

    def set_training_key(self, enabled: bool) -> None:
        """See Runtime.set_training_key. The stand-in store forgets it when it is started again."""
        from lab.store.admin import MinioAdministration

        self._running(STORE)
        current, _ = self._up()
        secrets, problem = self._secrets()
        if secrets is None:
            raise ServiceError(problem, "`labctl down`, then `labctl up` makes new ones")
        admin = MinioAdministration(self._view_with(current, secrets).url(STORE), secrets.root)
        admin.set_user_enabled(secrets.store.access_key, enabled)

    # One service

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """See Runtime.logs."""
        current = self._load()
        containers = self._holdings.containers()
        if current is None or not containers:
            raise self._down_error()
        if service != project.SETUP:
            self._known(current, service)
        container = containers.get(service)
        return self._lines(container, follow, tail) if container is not None else iter(())

    def kill(self, service: str) -> None:
        """See Runtime.kill."""
        self._acts.kill(self._running(service))

    def stop(self, service: str, *, timeout: float = 10.0) -> None:
        """See Runtime.stop."""
        container = self._running(service)
        if container.state == "paused":  # what is frozen cannot end when asked
            self._acts.kill(container)
        else:
            self._acts.stop(container, max(0, round(timeout)))

    def pause(self, service: str) -> None:
        """See Runtime.pause."""
        container = self._running(service)
        if container.state != "paused":
            self._acts.pause(container)

    def resume(self, service: str) -> None:
        """See Runtime.resume."""
        current, containers = self._up()
        self._known(current, service)
        container = containers.get(service)
        if container is not None and container.state == "paused":
            self._acts.unpause(container)

    def crash(self, service: str) -> None:
        """See Runtime.crash: the engine starts the container again. `start` ends that for a node."""
        crash.crash(self._engine, self._running(service))

    def disconnect(self, service: str) -> None:
        """See Runtime.disconnect."""
        network.disconnect(self._engine, self._running(service), self._networks())

    def reconnect(self, service: str) -> None:
        """See Runtime.reconnect. A container that has ended is connected too."""
        network.reconnect(self._engine, self._container(service), self._networks())

    def impair(
        self, service: str, *, delay_ms: float = 0.0, loss_percent: float = 0.0, rate_mbit: float = 0.0
    ) -> None:
        """See Runtime.impair."""
        container = self._running(service)
        network.impair(self._engine, self._helper_image(), container, delay_ms, loss_percent, rate_mbit)

    def unimpair(self, service: str) -> None:
        """See Runtime.unimpair. What was slow goes with a container that ends."""
        container = self._container(service)
        if container.alive:
            network.unimpair(self._engine, self._helper_image(), container)

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        """See Runtime.start."""
        self._known(self._up()[0], service)
        with lock(self._folder / "start.lock", f"starting {service}", patience=LOCK_PATIENCE_SECONDS):
            current, containers = self._up()
            container = containers.get(service)
            if container is not None and is_node(service):
                crash.calm(self._engine, container)
            if container is not None and container.cut:
                network.reconnect(self._engine, container, self._networks())
                containers = self._holdings.containers()
            found = self._known_status(self._view(current), service, containers)
            if found.state in (State.HEALTHY, State.PAUSED):
                return
            boot = self._boot(current)
            begin = self._clock()
            if found.state in (State.EXITED, State.ABSENT) or is_node(service):
                # What is left of a node that lost its cluster cannot be revived; it makes room.
                boot.start(service)
                on_progress(Progress(service, State.STARTING, "", 0.0))
        if wait:
            boot.wait([service], on_progress, begin)

    def execute(
        self,
        service: str,
        argv: Sequence[str],
        *,
        timeout: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> Execution:
        """See Runtime.execute."""
        container = self._running(service)
        if container.state != "running":
            raise LabDownError(f"{service} is {container.state}", f"`labctl restart {service}` starts it")
        return Execution(*self._engine.execute(container.id, argv, timeout, on_line))

    # Inside

    def _load(self) -> ComposeState | None:
        return self._find()[0]

    def _find(self) -> tuple[ComposeState | None, tuple[str, ...]]:
        """The lab's state, and notes about it.

        Raises StateError when it runs without, EngineError when nobody can tell of a damaged one.
        """
        path = self._folder / state.FILE

        def running() -> list[str]:
            try:
                found = self._holdings.containers()
            except RefusedError:  # somebody else's project
                return []
            except EngineError:
                if path.exists():
                    raise
                return []  # as on a machine that never had an engine
            return [name for name, container in found.items() if container.alive]

        return statefile.find(path, lambda: state.load(self._folder), self.lab, running)

    def _reserve(
        self, spec: LabSpec, leftovers: Mapping[str, Container], find_images: FindImages
    ) -> ComposeState:
        """Decide everything for a lab of which nothing runs, and write it down."""
        user = reserve.container_user(self._engine)
        reserve.check_readable(user)
        workspace = Path(self._environment.get("LAB_WORKSPACE") or project.WORKSPACE)
        note = reserve.workspace_note(user, workspace)
        chosen = find_images(spec, self._environment)
        if leftovers:  # of an `up` that died half-way, perhaps with other settings
            self._holdings.remove(leftovers)
        current = reserve.reserve(
            spec,
            self._folder,
            images=chosen,
            notes=(note,) if note else (),
            patience=LOCK_PATIENCE_SECONDS,
        )
        reserve.write_files(current, self._folder, user, self._environment)
        return current

    def _boot_all(self, current: ComposeState, on_progress: OnProgress) -> None:
        names = project.services(current)
        view = self._view(current)

        def look() -> tuple[Sequence[ServiceStatus], str]:
            containers = self._holdings.containers()
            nodes, why = self._nodes(view, containers)
            found = [readiness.service_status(view, n, containers.get(n), nodes, why) for n in names]
            return found, why

        found = all_settled(look, on_progress, self._clock, self._sleep)
        todo = [status.service for status in found if status.state is not State.HEALTHY]
        setup = self._holdings.containers().get(project.SETUP)
        if todo or setup is None or setup.exit_code:
            self._boot(current).all(names, todo, on_progress)

    def _boot(self, current: ComposeState) -> Boot:
        target = Target(
            self._project,
            project.paths(current, self._folder),
            self._folder / ENV_FILE,
            self._view(current),
        )
        return Boot(self._engine, target, self._clock, self._sleep)

    def _view(self, current: ComposeState) -> View:
        return self._view_with(current, self._secrets()[0])

    def _view_with(self, current: ComposeState, secrets: Secrets | None) -> View:
        return View(current.ports, current.offline, secrets, self._http, self._list_nodes)

    def _secrets(self) -> tuple[Secrets | None, str]:
        """The lab's secrets, or why they cannot be read; new ones would open nothing."""
        folder = self._folder / "secrets"
        try:
            if not (folder / RAY_FILE).exists():
                return None, f"the secret {folder / RAY_FILE} is missing"
            return load_or_make(folder), ""
        except (LabError, OSError) as error:
            return None, str(error)

    def _nodes(self, view: View, containers: Mapping[str, Container]) -> tuple[Sequence[Node], str]:
        """The cluster's nodes, asked only when there is a head to ask."""
        head = containers.get(HEAD)
        if head is None or head.state != "running":
            return (), f"{HEAD} is not running"
        return readiness.nodes_or_problem(view)

    def _known_status(self, view: View, service: str, containers: Mapping[str, Container]) -> ServiceStatus:
        """What a service does, for sure: a node that runs may well train while Ray is slow to answer.

        Raises WaitTimeoutError where that does not become known of a worker.
        """

        def look() -> tuple[ServiceStatus, str]:
            nodes, why = self._nodes(view, containers)
            return readiness.service_status(view, service, containers.get(service), nodes, why), why

        return settled(service, look, self._clock, self._sleep)

    def _up(self) -> tuple[ComposeState, dict[str, Container]]:
        current = self._load()
        if current is None:
            raise self._down_error()
        containers = self._holdings.containers()
        names = project.services(current)
        if not any(containers[name].alive for name in names if name in containers):
            raise self._down_error()
        return current, containers

    def _down_error(self) -> LabDownError:
        return LabDownError(f"lab {self.lab} is not up", "`labctl up` starts it")

    def _running(self, service: str) -> Container:
        current, containers = self._up()
        self._known(current, service)
        container = containers.get(service)
        if container is None or not container.alive:
            raise LabDownError(f"{service} is not running", f"`labctl restart {service}` starts it")
        return container

    def _container(self, service: str) -> Container:
        """The service's container, running or not."""
        current, containers = self._up()
        self._known(current, service)
        if service not in containers:
            raise LabDownError(f"{service} is not running", f"`labctl restart {service}` starts it")
        return containers[service]

    def _networks(self) -> tuple[str, ...]:
        return self._engine.networks(self._project)

    def _helper_image(self) -> str:
        """The lab's image: that of the lab that is up, else the one a lab without GPUs would have."""
        current = self._load()
        chosen = current.images.get(LAB_IMAGE) if current is not None else None
        return chosen or self._environment.get(LAB_IMAGE) or lab_image(Vendor.NONE)

    def _known(self, current: ComposeState, service: str) -> None:
        names = project.services(current)
        if service not in names:
            raise NotFoundError(f"lab {self.lab} has no service {service!r}", f"it has: {', '.join(names)}")

    def _lines(self, container: Container, follow: bool, tail: int | None) -> Iterator[str]:
        with self._engine.client() as client:
            chunks = client.container.logs(container.id, tail=tail, follow=follow, stream=True)
            for _, line in cast("Iterable[tuple[str, bytes]]", chunks):
                yield line.decode(errors="replace").rstrip("\r\n")

    def _clear(self) -> None:
        """Remove containers, networks and generated files; volumes and secrets stay."""
        self._holdings.remove(self._holdings.containers())
        for file in (state.FILE, ENV_FILE, OVERRIDE_FILE):
            remove(self._folder / file)
