"""The compose runtime: the lab as containers of a Docker Engine, one Compose project per lab."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from lab.api import hub
from lab.errors import EngineError, LabDownError, LabError, RefusedError, SetupError
from lab.host.clock import WALL, settle
from lab.host.files import remove
from lab.host.interrupts import held_back
from lab.host.workspace import workspace
from lab.people.registry import FOLDER
from lab.runtime import ports, proxy, statefile
from lab.runtime.base import Execution, Feature, OnProgress, ignore_progress
from lab.runtime.compose import network, project, reserve, state
from lab.runtime.compose.boot import LONGEST_SECONDS, Boot
from lab.runtime.compose.ending import Acts
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.homes import HomesInside
from lab.runtime.compose.images import WAYS, ensure, resolve
from lab.runtime.compose.images.model import LAB_IMAGE, ResolvedImages, lab_image
from lab.runtime.compose.inspected import Container, seen
from lab.runtime.compose.project_resources import Holdings
from lab.runtime.compose.state import ENV_FILE, OVERRIDE_FILE, ComposeState
from lab.runtime.health import Seen, World
from lab.runtime.homes import Homes
from lab.runtime.hosted import HostedRuntime
from lab.runtime.starting import ANSWER_SECONDS
from lab.services import HUB, is_node
from lab.topology import LabSpec, LabStatus, Progress, State, Struck, Usage, Vendor

Images = Callable[[LabSpec, Mapping[str, str], bool], ResolvedImages]
"""The images for a lab. The mapping has the variables that choose others than the pinned ones; the last
argument says whether to fetch what is missing."""


def images_of(spec: LabSpec, environment: Mapping[str, str], fetch: bool) -> ResolvedImages:
    """The images for a lab. What is missing is pulled or built, or is an error.

    Raises SetupError, UnsupportedError.
    """
    images = (ensure if fetch else resolve)(spec, environment)
    if images.missing:
        names = ", ".join(need.name for need in images.missing)
        raise SetupError(f"images of the lab are missing: {names}", f"get them with {WAYS}")
    return images


class ComposeRuntime(HostedRuntime[ComposeState]):
    """One lab of containers."""

    kind = "compose"
    elsewhere = statefile.LOCAL_FILE
    needs_engine = True
    patience = LONGEST_SECONDS

    def __init__(
        self,
        lab: str,
        folder: Path | None = None,
        *,
        engine: DockerEngine | None = None,
        world: World | None = None,
        images: Images = images_of,
    ) -> None:
        """`folder` is where the lab keeps its things; by default its folder in `home()`.

        From the world's environment the lab takes the LAB_* variables for images, memory and workspace.
        """
        super().__init__(lab, folder, world or World())
        self._engine = engine or DockerEngine()
        self._images = images
        self._project = project.project_name(lab)
        self._abilities: Mapping[Feature, str] | None = None
        self._holdings = Holdings(self._engine, self._project, self._folder, self._clock)
        self._acts = Acts(self._engine, self._clock)

    # The whole lab

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """Start the lab. Raises EngineError before anything starts when Docker cannot be used."""
        with self._decided(spec, on_progress, fetch=True) as (current, fresh):
            try:
                self._boot_all(current, on_progress)
            except BaseException:
                if fresh:
                    with held_back(), contextlib.suppress(LabError):
                        self._clear()
                raise
            self._refuse_ending()
            return settle(self.status, lambda seen: seen.healthy, timeout=ANSWER_SECONDS, clock=self._clock)

    def prepare(self, spec: LabSpec) -> tuple[str, ...]:
        """Choose ports, make secrets and files, start nothing; returns the `docker compose` call to use.

        For a lab that is up, the call is that of the lab as it is. Raises what `up` raises before it starts.
        """
        with self._decided(spec, ignore_progress, fetch=False) as (current, _):
            return project.command_line(current, self._folder)

    @contextlib.contextmanager
    def _decided(
        self, spec: LabSpec, on_progress: OnProgress, *, fetch: bool
    ) -> Iterator[tuple[ComposeState, bool]]:
        """The lab as it is, or as it is decided now, and whether nothing of it runs; no other labctl acts."""
        self._engine.check()
        with self._alone(f"starting lab {self.lab}", on_progress):
            containers = self._holdings.containers()
            self._holdings.check_volumes()
            current = self._load()
            if current is not None and any(c.alive for c in containers.values()):
                statefile.check_same(current.spec, current.ports, spec, reserve.runs_none)
                yield current, False
            else:
                yield self._reserve(spec, containers, fetch), True

    def refuse_down(self, *, volumes: bool = False) -> None:
        """Refuse to where the project, or with `volumes` one of its volumes, is somebody else's."""
        if self._folder.exists() or shutil.which(self._engine.call[0]) is not None:
            self._holdings.containers()
            if volumes:
                self._holdings.check_volumes()

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """Stop the lab by the labels of its containers, so that no file of it is needed."""
        if not self._folder.exists() and shutil.which(self._engine.call[0]) is None:
            return ()
        self.refuse_down(volumes=volumes)
        if not (self._folder.exists() or self._holdings.containers()):
            if volumes:
                self._holdings.remove_volumes()
            return ()
        with self._alone(f"stopping lab {self.lab}", on_progress, ending=True):
            stopped = self._holdings.stop(self._holdings.containers(), on_progress)
            with held_back():
                self._clear()
            if volumes:
                self._holdings.remove_volumes()
                for name in ("secrets", "lessons", FOLDER, hub.FOLDER, proxy.FOLDER, state.FAILED):
                    shutil.rmtree(self._folder / name, ignore_errors=True)
                (self._folder / ports.FILE).unlink(missing_ok=True)
        return stopped

    def status(self) -> LabStatus:
        """State of every service. Where the engine does not answer, a note says so."""
        try:
            current, notes = self._find()
            if current is None:
                return self._nothing(notes)
            containers = self._holdings.containers()
        except (EngineError, RefusedError) as error:
            hint = f"; {error.hint}" if error.hint else ""
            return self._nothing((f"{error.message}{hint}",))
        names = self._services(current)
        if not any(name in containers for name in names):
            return self._nothing()
        setup = containers.get(project.SETUP)
        if setup is not None and setup.state == "exited" and setup.exit_code:
            notes = (
                *notes,
                f"{project.SETUP} failed with exit code {setup.exit_code}; `labctl up` repeats it",
            )
        return self._status(current, {name: seen(containers.get(name)) for name in names}, notes)

    def kept(self) -> tuple[str, ...]:
        """Volumes of the store, or of its stand-in. Raises EngineError, RefusedError."""
        volumes = self._holdings.check_volumes()
        return tuple(name for name in volumes if name.endswith(("_objects", "_objects-standin")))

    def usage(self, services: Sequence[str]) -> dict[str, Usage]:
        """CPU of each container. Memory is left to Ray, which knows the containers' limits."""
        containers = self._holdings.containers().values()
        alive = {c.id: c.service for c in containers if c.alive and c.service in services}
        measured = self._engine.cpu_percent(tuple(alive))
        return {alive[container]: Usage(cpu) for container, cpu in measured.items() if container in alive}

    def missing(self, feature: Feature) -> str:
        """The reason why nodes lack a feature; those of a network are tried out. Raises EngineError."""
        if feature in (Feature.MEMORY_LIMIT, Feature.SCRATCH_DISK):
            return ""
        if feature in (Feature.PROCESSES, Feature.CORDON):
            return super().missing(feature)
        if self._abilities is None:
            self._abilities = network.abilities(self._engine, self._helper_image())
        return self._abilities[feature]

    # One service

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        current = self._load()
        containers = self._holdings.containers()
        if current is None or not containers:
            raise self._down_error()
        if service != project.SETUP:
            self._check_known(current, service)
        container = containers.get(service)
        return self._engine.logs(container.id, follow, tail) if container is not None else iter(())

    def kill(self, service: str) -> Struck:
        return self._acts.kill(self._check_runs(service))

    def stop(self, service: str, *, timeout: float = 10.0) -> Struck:
        container = self._check_runs(service)
        if container.state == "paused":  # what is frozen cannot end when asked
            return self._acts.kill(container)
        return self._acts.stop(container, max(0, round(timeout)))

    def pause(self, service: str) -> Struck:
        container = self._check_runs(service)
        return Struck(now := WALL(), now) if container.state == "paused" else self._acts.pause(container)

    def resume(self, service: str) -> None:
        container = self._known_containers(service).get(service)
        if container is not None and container.state == "paused":
            self._acts.unpause(container)

    def crash(self, service: str) -> Struck:
        """End a service so that the engine starts its container again. `start` ends that for a node."""
        return self._acts.crash(self._check_runs(service))

    def disconnect(self, service: str) -> Struck:
        return network.disconnect(self._engine, self._check_runs(service), self._networks())

    def reconnect(self, service: str) -> None:
        """Connect a container to the lab's network again, also one that has ended."""
        network.reconnect(self._engine, self._container(service), self._networks())

    def impair(
        self, service: str, *, delay_ms: float = 0.0, loss_percent: float = 0.0, rate_mbit: float = 0.0
    ) -> None:
        container = self._check_runs(service)
        network.impair(self._engine, self._helper_image(), container, delay_ms, loss_percent, rate_mbit)

    def unimpair(self, service: str) -> None:
        """Take the impairment of a network back; that of a container that ended went with it."""
        container = self._container(service)
        if container.alive:
            network.unimpair(self._engine, self._helper_image(), container)

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        self._known_containers(service)
        with self._alone(f"starting {service}", on_progress):
            current, containers = self._up_with_containers()
            container = containers.get(service)
            if container is not None and is_node(service) and not current.spec.classroom:
                self._acts.calm(container)
            if container is not None and container.cut:
                network.reconnect(self._engine, container, self._networks())
            status = self._settled(current, service)
            if status.state in (State.HEALTHY, State.PAUSED):
                return
            boot = self._boot(current)
            begin = self._clock()
            if status.state in (State.EXITED, State.ABSENT) or is_node(service):
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
        container = self._check_runs(service)
        if container.state != "running":
            raise LabDownError(f"{service} is {container.state}", f"`labctl restart {service}` starts it")
        return Execution(*self._engine.execute(container.id, argv, timeout, on_line))

    def homes(self) -> Homes:
        return HomesInside(partial(self.execute, HUB)) if self._up().spec.hub else super().homes()

    # Inside

    def _find(self) -> tuple[ComposeState | None, tuple[str, ...]]:
        """State of the lab. Raises EngineError, too, when nobody can tell of a damaged state."""
        path = self._folder / state.FILE

        def running() -> list[str]:
            try:
                containers = self._holdings.containers()
            except RefusedError:  # somebody else's project
                return []
            except EngineError:
                if path.exists():
                    raise
                return []  # as on a machine that never had an engine
            return [name for name, container in containers.items() if container.alive]

        return statefile.find(path, lambda: state.load(self._folder), self.lab, running)

    def _reserve(self, spec: LabSpec, leftovers: Mapping[str, Container], fetch: bool) -> ComposeState:
        """Decide everything for a lab of which nothing runs, and write it down."""
        spec = proxy.placed(spec, rights=False)  # the engine opens the port
        user = reserve.container_user(self._engine)
        for who in (user, *([reserve.PERSON] if spec.hub else ())):
            reserve.check_readable(who)
        shown = self._world.environ.get("LAB_WORKSPACE")
        note = reserve.workspace_note(user, Path(shown) if shown else workspace())
        chosen = self._images(spec, self._world.environ, fetch)
        if leftovers:  # of an `up` that died half-way, perhaps with other settings
            self._holdings.remove(leftovers)
        current = reserve.reserve(
            spec,
            self._folder,
            images=chosen,
            notes=(note,) if note else (),
            patience=self.patience,
        )
        reserve.write_files(current, self._folder, user, self._world.environ)
        return current

    def _boot_all(self, current: ComposeState, on_progress: OnProgress) -> None:
        names = self._services(current)
        for todo in self._rounds(current, on_progress):
            setup = self._holdings.containers().get(project.SETUP)
            if todo or setup is None or setup.exit_code:
                self._boot(current).all(names, todo, on_progress)

    def _boot(self, current: ComposeState) -> Boot:
        files = project.paths(current, self._folder)
        view, _ = self._view(current)
        return Boot(self._engine, self._project, files, self._folder / ENV_FILE, view)

    def _services(self, current: ComposeState) -> tuple[str, ...]:
        return project.services(current)

    def _seen(self, current: ComposeState) -> dict[str, Seen]:
        containers = self._holdings.containers()
        return {name: seen(containers.get(name)) for name in self._services(current)}

    def _up(self) -> ComposeState:
        return self._up_with_containers()[0]

    def _up_with_containers(self) -> tuple[ComposeState, dict[str, Container]]:
        current = self._load()
        if current is None:
            raise self._down_error()
        containers = self._holdings.containers()
        if not any(containers[name].alive for name in self._services(current) if name in containers):
            raise self._down_error()
        return current, containers

    def _known_containers(self, service: str) -> dict[str, Container]:
        """The containers of a lab that is up and has this service."""
        current, containers = self._up_with_containers()
        self._check_known(current, service)
        return containers

    def _check_runs(self, service: str) -> Container:
        container = self._known_containers(service).get(service)
        if container is None or not container.alive:
            raise self._not_running(service)
        return container

    def _container(self, service: str) -> Container:
        """The service's container, running or not."""
        containers = self._known_containers(service)
        if service not in containers:
            raise self._not_running(service)
        return containers[service]

    def _networks(self) -> tuple[str, ...]:
        return self._engine.networks(self._project)

    def _helper_image(self) -> str:
        """The lab's image: that of the lab that is up, else the one a lab without GPUs would have."""
        current = self._load()
        chosen = current.images.get(LAB_IMAGE) if current is not None else None
        return chosen or self._world.environ.get(LAB_IMAGE) or lab_image(Vendor.NONE)

    def _clear(self) -> None:
        """Remove containers, networks and generated files; volumes and secrets stay."""
        self._holdings.remove(self._holdings.containers())
        for file in (state.FILE, ENV_FILE, OVERRIDE_FILE):
            remove(self._folder / file)
