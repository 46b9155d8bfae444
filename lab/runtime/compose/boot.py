"""Starting containers: in stages, until they are healthy, and back to where it was when that fails."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from lab.cluster import patches
from lab.errors import EngineError, LabError, ServiceError, WaitTimeoutError
from lab.host.clock import settle
from lab.host.interrupts import held_back
from lab.host.listening import Listening, reached
from lab.runtime import ports
from lab.runtime.base import OnProgress, ignore_progress
from lab.runtime.compose import network
from lab.runtime.compose.ending import Acts
from lab.runtime.compose.engine import ACT_SECONDS, DockerEngine
from lab.runtime.compose.inspected import Container, ended, seen
from lab.runtime.compose.project import SETUP
from lab.runtime.compose.project_resources import by_service, check_volumes
from lab.runtime.compose.state import FAILED
from lab.runtime.compose.written import ContainerLogs
from lab.runtime.health import View
from lab.runtime.logtail import listing
from lab.runtime.starting import TRIES, again, late, ray_gave_up, staying
from lab.services import HEAD, NEEDED, STORE, is_node, is_worker, row, stage
from lab.topology import Progress, State

START_SECONDS = 180.0
"""Deadline for one service to become healthy, each time that it is started. Measured on 2 busy cores: head
20 s, worker 12 s."""

LONGEST_SECONDS = TRIES * START_SECONDS
"""Until a node has been given up for good."""

POLL_SECONDS = 0.4
AT_ONCE = max(2, (os.cpu_count() or 2) // 2)
"""Workers that start at the same time: one that does not join in time ends, see lab.runtime.starting."""

GIVE_UP_RESTARTS = 2
"""A service that was started again so often while it should become healthy will not."""

_BOUND = re.compile(r"\b127\.0\.0\.1:(\d+)\b")
_TAKEN = re.compile(r"port is already allocated|address already in use|ports are not available", re.I)


def rounds(services: Sequence[str]) -> list[list[str]]:
    """The services in groups that start one after the other; of the workers only a few at a time."""
    workers = [name for name in services if is_worker(name)]
    others = [name for name in services if not is_worker(name)]
    last = max(map(stage, others), default=0)
    groups = [[name for name in others if stage(name) == number] for number in range(last + 1)]
    return [*groups, *(workers[i : i + AT_ONCE] for i in range(0, len(workers), AT_ONCE))]


class Boot:
    """Starts services of one lab."""

    def __init__(
        self, engine: DockerEngine, project: str, files: Sequence[Path], env_file: Path, view: View
    ) -> None:
        """`files` are those of the project, with its variables in `env_file`."""
        self._engine, self._project, self._files, self._env_file = engine, project, files, env_file
        self._view, self._clock = view, view.world.clock
        self._started: list[str] = []
        """Services that this call started, in order."""
        self._healthy: set[str] = set()
        """The services among these that have become healthy."""
        self._tries: dict[str, int] = {}
        """Service -> times that it was started."""
        self._written = ContainerLogs(engine, env_file.parent / FAILED)
        self._deadlines: dict[str, float] = {}
        self._acts = Acts(engine, self._clock)
        self._before: dict[str, Container] = {}

    def all(self, services: Sequence[str], todo: Collection[str], on_progress: OnProgress) -> None:
        """Make every container, start those of `todo`; on any failure stop what this call started.

        In a lab that is up already some of it stays: see lab.runtime.starting.

        Raises EngineError, ServiceError, PortTakenError, WaitTimeoutError.
        """
        begin = self._clock()
        self._before = self._containers()
        try:
            if set(services) - set(self._before) or SETUP not in self._before:
                self.create()
            for number, begun in enumerate(rounds([name for name in services if name in todo])):
                for name in begun:
                    self.start(name)
                    on_progress(Progress(name, State.STARTING, "", self._clock() - begin))
                needed = [name for name in begun if name in NEEDED or is_worker(name)]
                self.wait(needed, on_progress, begin)
                if number == 0:
                    self._set_up(STORE in todo)
            self.wait([name for name in services if name in todo], on_progress, begin)
            self._check_published()
        except BaseException:
            with held_back():
                self._take_back()  # what fails here is not what went wrong
            raise

    def _check_published(self) -> None:
        """Refuse containers that the network reaches: engines have ways of their own. Raises ServiceError."""
        for name, container in self._containers().items():
            for address, port in container.published:
                if not Listening(address, port).on_loopback:
                    raise reached(name, address, port)

    def create(self) -> None:
        """Make the containers, networks and volumes that are missing; nothing starts.

        Raises EngineError, RefusedError.
        """
        check_volumes(self._engine, self._project, self._env_file.parent)
        self._engine.create(self._files, self._env_file)

    def start(self, service: str) -> None:
        """Start one container afresh; what runs in it is killed. Raises ServiceError, PortTakenError."""
        container = self._containers().get(service)
        if container is None:
            self.create()
            container = self._containers().get(service)
        if container is None:
            raise ServiceError(f"Compose made no container for {service}", "look at `labctl up --dry-run`")
        self._start(service, container)

    def _start(self, service: str, container: Container) -> None:
        if service not in self._started:
            self._started.append(service)
        self._healthy.discard(service)
        self._tries[service] = self._tries.get(service, 0) + 1
        try:
            if container.alive:
                self._acts.kill(container, gone=True)
            if container.cut:
                network.reconnect(self._engine, container, self._engine.networks(self._project))
            self._engine.act("start", [container.id], grace=START_SECONDS - ACT_SECONDS)
        except EngineError as error:
            raise self._not_started(service, error) from error
        self._deadlines[service] = self._clock() + START_SECONDS

    def wait(self, services: Collection[str], on_progress: OnProgress, begin: float) -> None:
        """Wait until these are healthy, and notice when anything that this call started ends.

        A node that Ray gave up is started again, TRIES times in all, and has START_SECONDS each time. Raises
        WaitTimeoutError, ServiceError.
        """
        waiting = [name for name in services if name not in self._healthy]
        for name in waiting:  # what is waited for behind others has its time all the same
            self._deadlines[name] = self._clock() + START_SECONDS
        while waiting:
            containers = self._containers()
            started = dict.fromkeys([*waiting, *self._started])
            for name in started:
                if name in containers:
                    self._written.began(containers[name])
                stopped = containers.get(name)
                if stopped is not None and self._gave_up(name, stopped):
                    detail = again(name, self._tries.get(name, 1) + 1)
                    on_progress(Progress(name, State.STARTING, detail, self._clock() - begin))
                    self._start(name, stopped)  # one that `down` has removed meanwhile is not made anew
                    containers = self._containers()
                self._check_alive(name, containers.get(name))
            details = self._look(started, containers, on_progress, begin)
            waiting = [name for name in waiting if name not in self._healthy]
            for name in waiting:
                if self._clock() >= self._deadlines[name]:
                    container = containers[name]
                    raise WaitTimeoutError(
                        late(name, START_SECONDS, details[name], self._written.lines(container)),
                        self._written.keep(container),
                    )
            if waiting:
                self._clock.sleep(POLL_SECONDS)

    def _look(
        self,
        services: Collection[str],
        containers: Mapping[str, Container],
        on_progress: OnProgress,
        begin: float,
    ) -> dict[str, str]:
        """Note which of these have become healthy; returns what the others lack, in words."""
        view = self._view
        cluster = view.cluster(seen(containers.get(HEAD)), starting=True)
        details = {}
        for name in services:
            if name == SETUP or name in self._healthy:
                continue
            status = view.status(name, seen(containers.get(name)), cluster)
            if status.state is State.HEALTHY:
                self._healthy.add(name)
                on_progress(Progress(name, State.HEALTHY, status.detail, self._clock() - begin))
            else:
                details[name] = status.detail
        return details

    def _set_up(self, again: bool) -> None:
        """Run the one-shot service that prepares the store, unless it has succeeded in this store's life."""
        container = self._containers()[SETUP]
        if container.state == "exited" and container.exit_code == 0 and not again:
            return
        self.start(SETUP)
        container = settle(
            lambda: self._containers()[SETUP],
            lambda setup: setup.state in ("exited", "dead"),
            timeout=START_SECONDS,
            clock=self._clock,
            every=POLL_SECONDS,
        )
        if container.state not in ("exited", "dead"):
            raise WaitTimeoutError(
                f"{SETUP} has not ended after {START_SECONDS:g} s. {listing(self._written.lines(container))}",
                self._written.keep(self._containers()[STORE]),
            )
        if container.exit_code:
            raise self._failed(SETUP, container)
        self._started.remove(SETUP)

    def _gave_up(self, service: str, container: Container) -> bool:
        """True when a node ended because Ray did not wait long enough for it, and has a try left."""
        if container.state != "exited" or not is_node(service):
            return False
        if self._tries.get(service, 1) >= TRIES:
            return False
        return ray_gave_up(self._written.lines(container))

    def _check_alive(self, service: str, container: Container | None) -> None:
        if container is None:
            raise ServiceError(f"the container of {service} was removed while it was starting")
        before = self._before.get(service)
        restarts = container.restarts - (before.restarts if before and before.id == container.id else 0)
        if service != SETUP and (container.state in ("exited", "dead") or restarts >= GIVE_UP_RESTARTS):
            raise self._failed(service, container)

    def _failed(self, service: str, container: Container) -> LabError:
        lines = self._written.lines(container)
        unfit = patches.said_unfit(lines) if is_node(service) else None
        if unfit is not None:
            return unfit
        text = "\n".join(self._written.new_lines(container))
        what = f"{service} failed: {ended(container)}"
        if "No space left on device" in text:
            what, hint = f"{service} failed: no space is left on the disk", "free some space"
        elif container.out_of_memory:
            hint = "raise LAB_NODE_MEMORY (such as 6g), then `labctl up`"
        else:
            hint = self._written.keep(container)
        return ServiceError(f"{what}. {listing(lines)}", hint)

    def _not_started(self, service: str, error: EngineError) -> LabError:
        if not _TAKEN.search(error.message):
            return ServiceError(f"{service} could not be started: {error.message}", error.hint)
        known = self._view.ports
        name = next(
            (port for port in known if f":{known[port]} " in f"{error.message} "), row(service).url_port
        )
        bound = _BOUND.search(error.message)
        return ports.taken(service, name, known.get(name, int(bound[1]) if bound else 0))

    def _containers(self) -> dict[str, Container]:
        return by_service(self._engine.containers(self._project))

    def _take_back(self) -> None:
        """Kill what this call started; remove the containers that were not there before.

        But for what stays in a lab that was up: see lab.runtime.starting.
        """
        with contextlib.suppress(LabError):
            containers = self._containers()
            ran = {name for name, container in self._before.items() if container.alive}
            stays: set[str] = set()
            if ran:
                self._look(self._started, containers, ignore_progress, self._clock())
                stays = staying(self._started, ran, self._healthy)
            started = [containers[name] for name in reversed(self._started) if name in containers]
            alive = [c.id for c in started if c.alive and c.service not in stays]
            if alive:
                with contextlib.suppress(EngineError):
                    self._engine.act("kill", alive, gone=True)
            made = [c.id for name, c in containers.items() if name not in self._before and name not in stays]
            if made:
                self._engine.act("rm", made, "--force", gone=True)
