"""The local runtime: the lab as plain processes on loopback, without Docker."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import psutil

from lab.errors import RefusedError, SetupError, StateError, WaitTimeoutError
from lab.host import command, environment
from lab.host.clock import settle
from lab.host.files import delete_tree, remove
from lab.runtime import statefile
from lab.runtime.base import Execution, Feature, OnProgress, ignore_progress
from lab.runtime.health import Seen, World
from lab.runtime.hosted import ENDING, LOCK, HostedRuntime
from lab.runtime.local import forks, output, processes, prometheus, reserve, services, state, temporary
from lab.runtime.local.boot import LONGEST_SECONDS, Boot
from lab.runtime.local.layout import Layout
from lab.runtime.local.services import ServicePlan
from lab.runtime.local.state import LabState
from lab.runtime.starting import ANSWER_SECONDS
from lab.services import HEAD, REDIS, STORE, is_node, row
from lab.topology import LabSpec, LabStatus, Progress, State, Struck, Usage

STOP_SECONDS = 5.0
"""Grace of a service at `down`."""

NODE_MEMORY_SHARE = 0.8
"""Share of the host's memory that all nodes together offer to Ray's scheduler."""

GONE = (State.ABSENT, State.EXITED)
NO_PACKAGES = "left out for now: its packages are not installed"

_SHARED = "the nodes of the local runtime share the machine's"
SHARED = {
    Feature.NETWORK: f"{_SHARED} loopback network",
    Feature.NETWORK_DELAY: f"{_SHARED} loopback network",
    Feature.NETWORK_LOSS: f"{_SHARED} loopback network",
    Feature.MEMORY_LIMIT: f"{_SHARED} memory",
    Feature.SCRATCH_DISK: f"{_SHARED} disk",
}
"""Reasons why a node that is a plain process has no such thing of its own."""


class LocalRuntime(HostedRuntime[LabState]):
    """One lab of plain processes."""

    kind = "local"
    elsewhere = statefile.COMPOSE_FILE
    patience = LONGEST_SECONDS

    def __init__(self, lab: str, folder: Path | None = None, *, world: World | None = None) -> None:
        """`folder` is where the lab keeps its things; by default its folder in `home()`."""
        super().__init__(lab, folder, world or World())
        # Named after the folder: labs of equal name in two homes must not share it.
        short = hashlib.sha256(str(self._folder).encode()).hexdigest()[:8]
        self._layout = Layout(self._folder, *temporary.of_lab(short))

    # The whole lab

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """Start the lab. Installs what the services need the first time (SetupError when it cannot)."""
        for group in ("local", *_packages(spec).values()):
            environment.ensure(group)
        return self._start_all(spec, on_progress, ())

    def up_to_train(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        environment.ensure("local")
        lacking = (name for name, group in _packages(spec).items() if not environment.installed(group))
        return self._start_all(spec, on_progress, tuple(lacking))

    def provide(self, group: str) -> None:
        """Install a group of packages into the environment of labctl, in which the nodes run."""
        if group:
            environment.ensure(group)

    def start_left_out(self, on_progress: OnProgress = ignore_progress) -> None:
        """Start what `up_to_train` left out; an `up` that was called meanwhile may have started it."""
        for service in self._up().left_out:
            environment.ensure(services.PACKAGES[service])
            with self._alone(f"starting {service}", on_progress):
                if service in self._up().left_out:
                    self._start(service, on_progress, wait=True)

    def _start_all(self, spec: LabSpec, on_progress: OnProgress, lacking: Collection[str]) -> LabStatus:
        """`up`, without those services of `lacking` that do not run."""
        with self._alone(f"starting lab {self.lab}", on_progress):
            current = self._load()
            if current is not None and reserve.anything_alive(current):
                statefile.check_same(current.spec, current.ports, spec, reserve.runs_none)
            else:
                current = reserve.reserve(spec, self._layout, patience=self.patience)
            left_out = [name for name in lacking if current.seen(name, self._world).state in GONE]
            for name in left_out:
                on_progress(Progress(name, State.ABSENT, NO_PACKAGES))
            if current.left_out != tuple(left_out):
                current = current.without(left_out)
                state.save(self._folder, current)
            boot = self._boot(current)
            for todo in self._rounds(current, on_progress):
                boot.all(self._load() or current, todo, on_progress)
            self._refuse_ending()
            return settle(self.status, lambda seen: seen.healthy, timeout=ANSWER_SECONDS, clock=self._clock)

    def refuse_down(self, *, volumes: bool = False) -> None:
        """Refuse to in a process of the lab, such as a notebook's: half of it would be left."""
        if os.environ.get(processes.MARK, "").startswith(f"{self._folder}:"):
            raise RefusedError(
                f"this process runs in lab {self.lab} and would end with it",
                f"in a shell of the machine: labctl down --lab {self.lab}",
            )
        if volumes and (self._folder / statefile.COMPOSE_FILE).exists():
            raise RefusedError(
                f"lab {self.lab} was started in containers, which hold its objects",
                "`labctl down --volumes --runtime compose`, with Docker running",
            )

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """Stop the lab, and processes that carry its mark but stand in no state file."""
        if not self._folder.exists() and not processes.services_of(self._folder):
            return ()
        self.refuse_down(volumes=volumes)
        with self._alone(f"stopping lab {self.lab}", on_progress, ending=True):
            try:
                current = state.load(self._folder)
            except StateError:
                current = None
            leaders = dict(current.leaders) if current else {}
            leaders.pop(services.FORKS, None)
            names = {*leaders, *processes.services_of(self._folder)}
            # Clients first, then the nodes that depend on the head, then the head, the store last.
            order = sorted(
                names, key=lambda name: (name == STORE, name == REDIS, name == HEAD, is_node(name), name)
            )
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
            forks.end(self._layout)
            temporary.remove(self._layout.ray_temporary)
            temporary.remove(temporary.same(current.scratch if current else "", self._layout.scratch))
            shutil.rmtree(self._layout.redis, ignore_errors=True)
            remove(self._folder / state.FILE)
            if volumes:
                self._delete()
        return tuple(stopped)

    def _delete(self) -> None:
        """Delete the lab's folder, and the lock in it last. Raises SetupError that names what stays."""
        try:
            for entry in self._folder.iterdir():
                if entry.name not in (LOCK, ENDING):
                    delete_tree(entry) if entry.is_dir() else entry.unlink()
            (self._folder / ENDING).unlink(missing_ok=True)
            self._remove_folder()
        except OSError as error:
            raise SetupError(
                f"cannot delete {error.filename or self._folder}: {error.strerror}",
                "unmount it if it is a mount point, or check its owner; then try again",
            ) from error

    def status(self) -> LabStatus:
        current, notes = self._find()
        if current is None:
            return self._nothing(notes)
        if current.stale:
            notes = (
                "the machine was rebooted since `up`; `labctl up` starts the lab again, with its objects",
            )
        notes += tuple(f"{name}: {NO_PACKAGES}; `labctl up` installs them" for name in current.left_out)
        return self._status(current, self._seen(current), notes)

    def kept(self) -> tuple[str, ...]:
        """Folders of the store that hold something."""
        places = sorted((self._folder / "objects").glob("*"))
        return tuple(str(place) for place in places if place.is_dir() and any(place.iterdir()))

    def client_environment(self) -> dict[str, str]:
        """The variables that a shell needs to use the lab with Ray's own tools, also as a driver."""
        return services.client_environment(self._plan(self._up()))

    def usage(self, services: Sequence[str]) -> dict[str, Usage]:
        leaders = self._up().leaders
        groups = {s: processes.members(leaders.get(s), self._layout.mark(s)) for s in services}
        measured = processes.usage(groups, self._clock)
        return {service: Usage(cpu, memory) for service, (cpu, memory) in measured.items()}

    def missing(self, feature: Feature) -> str:
        return SHARED.get(feature) or super().missing(feature)

    # One service

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        current = self._load()
        if current is None:
            raise self._down_error()
        self._check_known(current, service)
        return output.lines(
            self._layout.log(service),
            tail=tail,
            follow=follow,
            going_on=lambda: self._has(service),
            clock=self._clock,
        )

    def refuse_own(self, *services: str) -> None:
        own = os.environ.get(processes.MARK, "")
        for service in services:
            if own == self._layout.mark(service):
                raise RefusedError(
                    f"this process runs in {service} and would end with it",
                    f"in a shell of the machine: labctl restart {services[0]} --lab {self.lab}",
                )

    def kill(self, service: str) -> Struck:
        """Kill a service. Raises RefusedError in a process of the service, as stop and pause do."""
        self.refuse_own(service)
        current = self._check_runs(service)
        return processes.end(current.leaders.get(service), self._layout.mark(service), grace=0)

    def stop(self, service: str, *, timeout: float = 10.0) -> Struck:
        self.refuse_own(service)
        current = self._check_runs(service)
        return processes.end(current.leaders.get(service), self._layout.mark(service), grace=timeout)

    def pause(self, service: str) -> Struck:
        self.refuse_own(service)
        current = self._check_runs(service)
        leader, mark = current.leaders.get(service), self._layout.mark(service)
        struck = processes.send(processes.members(leader, mark), signal.SIGSTOP)
        for _ in range(2):  # a process made between the look and the signal is caught by the next look
            living = processes.members(leader, mark)
            if processes.frozen(living):
                break
            struck = Struck(struck.first, processes.send(living, signal.SIGSTOP).last)
        return struck

    def resume(self, service: str) -> None:
        current = self._up()
        self._check_known(current, service)
        group = processes.members(current.leaders.get(service), self._layout.mark(service))
        processes.send(group, signal.SIGCONT)

    def crash(self, service: str) -> Struck:
        """End a service and start it at once: labctl is the supervisor."""
        struck = self.kill(service)
        self.start(service, wait=False)
        return struck

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        """Start a service. Installs the packages that it needs, as `up` does."""
        if service not in self._up().left_out:
            self._check_known(self._up(), service)
        if service in services.PACKAGES:
            environment.ensure(services.PACKAGES[service])
        with self._alone(f"starting {service}", on_progress):
            self._start(service, on_progress, wait=wait)

    def _start(self, service: str, on_progress: OnProgress, *, wait: bool) -> None:
        """`start`, with the lock, also while it waits: two raylets must not start at the same instant."""
        current = self._up()
        if service in current.left_out:
            current = current.without({*current.left_out} - {service})
            state.save(self._folder, current)
        status = self._settled(current, service)
        if status.state in (State.HEALTHY, State.PAUSED):
            return
        boot = self._boot(current)
        identity = current.leaders.get(service)
        if status.state is State.EXITED or identity is None or is_node(service):
            # What is left of a node that lost its cluster cannot be revived; it makes room.
            processes.end(identity, self._layout.mark(service), grace=0)
            current = boot.spawn(current, service)
            identity = current.leaders[service]
        if wait and is_node(service):
            boot.join(current, service, on_progress, self._clock())
        elif wait:
            boot.wait(service, identity, on_progress, self._clock())

    def execute(
        self,
        service: str,
        argv: Sequence[str],
        *,
        timeout: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> Execution:
        """Run a command as the service would. It carries the service's mark: `down` ends it too."""
        current = self._check_runs(service)
        how = self._plan(current).command(service)
        try:
            if on_line is None:
                ended = command.run(argv, timeout=timeout, env=how.environment, cwd=how.cwd, merged=True)
            else:
                ended = command.stream(argv, on_line, timeout=timeout, env=how.environment, cwd=how.cwd)
        except subprocess.TimeoutExpired as error:
            raise WaitTimeoutError(f"`{' '.join(argv)}` has not ended after {timeout:g} s") from error
        except OSError as error:
            return Execution(127, f"{argv[0]}: {error.strerror}\n")
        return Execution(ended.returncode, ended.stdout)

    # Inside

    def _find(self) -> tuple[LabState | None, tuple[str, ...]]:
        return statefile.find(
            self._folder / state.FILE,
            lambda: state.load(self._folder),
            self.lab,
            lambda: processes.services_of(self._folder),
        )

    def _boot(self, current: LabState) -> Boot:
        return Boot(self._plan(current), self._view(current)[0])

    def _services(self, current: LabState) -> tuple[str, ...]:
        names = services.services_of(current.spec, current.ports)
        return tuple(name for name in names if name not in current.left_out)

    def _seen(self, current: LabState) -> dict[str, Seen]:
        return {name: current.seen(name, self._world) for name in self._services(current)}

    def _has(self, service: str) -> bool:
        """True when the lab stands in its state file with this service."""
        try:
            current = self._load()
        except StateError:
            return False
        return current is not None and service in self._services(current)

    def _up(self) -> LabState:
        current = self._load()
        if current is None or not reserve.anything_alive(current):
            raise self._down_error()
        return current

    def _check_runs(self, service: str) -> LabState:
        current = self._up()
        self._check_known(current, service)
        if not processes.members(current.leaders.get(service), self._layout.mark(service)):
            raise self._not_running(service)
        return current

    def _plan(self, current: LabState) -> ServicePlan:
        return ServicePlan(
            spec=current.spec,
            ports=current.ports,
            layout=self._layout,
            secrets=self._secrets(),
            store=current.store,
            minio=shutil.which("minio") or "minio",
            prometheus=(shutil.which("prometheus") or "prometheus") if "prometheus" in current.ports else "",
            alertmanager=prometheus.find_alertmanager() if "alertmanager" in current.ports else "",
            redis=(reserve.find_redis() or "redis-server") if current.spec.gcs_ft else "",
            scratch=temporary.same(current.scratch, self._layout.scratch),
            memory_bytes=int(psutil.virtual_memory().total * NODE_MEMORY_SHARE / (current.spec.workers + 1)),
        )


def _packages(spec: LabSpec) -> dict[str, str]:
    """Service -> the group of packages that a lab with these settings needs for it beyond `local`."""
    return {name: group for name, group in services.PACKAGES.items() if spec.has(row(name))}
