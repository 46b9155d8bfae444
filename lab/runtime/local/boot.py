"""Starting services: in order, until they are healthy, and back to where it was when that fails."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from lab.errors import PortTakenError, ServiceError, WaitTimeoutError
from lab.host.clock import settle
from lab.host.files import make_private, remove, size_of, write_private
from lab.host.interrupts import held_back
from lab.host.jupyter import write_labctl
from lab.runtime.base import OnProgress
from lab.runtime.health import View
from lab.runtime.local import causes, classroom, forks, output, processes, prometheus, state, temporary
from lab.runtime.local.processes import Identity
from lab.runtime.local.services import FORKS, ServicePlan
from lab.runtime.local.state import LabState
from lab.runtime.starting import TRIES, again, late, ray_gave_up, staying
from lab.services import ALERTMANAGER, HEAD, JUPYTER, REDIS, is_node
from lab.topology import Progress, ServiceStatus, State

START_SECONDS = 120.0
"""Deadline for one service to become healthy, each time that it is started. Measured on 2 cores: head 8 s,
worker 5 s, JupyterLab 4 s."""

LONGEST_SECONDS = TRIES * START_SECONDS
"""Until a node has been given up for good."""

POLL_SECONDS = 0.1
PORTS_SECONDS = 5.0
"""Interval between looks at who holds the ports of a service that is not healthy yet; one takes 50 ms."""

NOBODY: Mapping[str, Identity] = MappingProxyType({})
LAST_LINES = 12
"""Lines of a log that an error shows."""


class Boot:
    """Starts services of one lab."""

    def __init__(self, plan: ServicePlan, view: View) -> None:
        self._plan, self._layout = plan, plan.layout
        self._view, self._clock = view, view.world.clock
        self._log_began: dict[str, int] = {}
        """Service -> size of its log when it was started: what is older is another process's."""
        self._first_began: dict[str, int] = {}
        """The same of the first time that this call started it."""

    def all(self, current: LabState, todo: tuple[str, ...], on_progress: OnProgress) -> None:
        """Start the services `todo`, in this order; on any failure stop what this call started.

        In a lab that is up already some of it stays: see lab.runtime.starting.

        Raises ServiceError, PortTakenError, WaitTimeoutError, StoreError, SetupError.
        """
        begin = self._clock()
        started: list[str] = []
        fresh = not current.leaders
        ran = {name for name, identity in current.leaders.items() if processes.find(identity)}
        if fresh:
            forks.end(self._layout)
            self._remove_scratch()
            shutil.rmtree(self._layout.redis, ignore_errors=True)
        if HEAD in todo and (fresh or not self._plan.spec.gcs_ft):  # with Redis the workers live on in it
            temporary.remove(self._layout.ray_temporary)
        try:
            if self._plan.spec.gcs_ft:
                make_private(self._layout.redis)
            make_private(self._layout.objects(self._plan.store))
            temporary.make(self._layout.ray_temporary)
            if self._plan.scratch is not None:
                temporary.make(self._plan.scratch)
            if self._plan.prometheus:
                files = {"prometheus.yml": prometheus.config(self._plan), **prometheus.rules()}
                if ALERTMANAGER in todo:
                    files["alertmanager.yml"] = prometheus.alerting(os.environ)
                for name, text in files.items():
                    write_private(self._layout.folder / name, text)
            classroom.write_proxy(self._plan)
            if JUPYTER in todo:
                write_labctl(self._layout.jupyter)
            if any(map(is_node, todo)):
                current = self.serve_forks(current, started)
            waiting: list[str] = []
            for name in todo:
                if is_node(name):
                    self._await_forks(current, on_progress, begin)
                processes.end(current.leaders.get(name), self._layout.mark(name), grace=0)
                started.append(name)
                current = self.spawn(current, name)
                on_progress(Progress(name, State.STARTING, "", self._clock() - begin))
                if is_node(name):  # raylets that start at once in one session take the same names for sockets
                    others = {other: current.leaders[other] for other in waiting}
                    current = self.join(current, name, on_progress, begin, others)
                elif name == REDIS:  # the head needs it
                    self.wait(name, current.leaders[name], on_progress, begin)
                else:
                    waiting.append(name)
            for name in waiting:
                self.wait(name, current.leaders[name], on_progress, begin)
            self._set_up_store()
            address = self._plan.spec.address
            if fresh and (reached := causes.exposed(self._layout.folder, address)):  # later jobs listen, too
                raise reached
        except BaseException:
            with held_back():
                with contextlib.suppress(ServiceError):  # an interrupt may have kept it from being handed on
                    current = state.load(self._layout.folder) or current
                kept = set() if fresh else self._staying(current, started, ran)
                self._take_back(current, [name for name in started if name not in kept])
            raise

    def serve_forks(self, current: LabState, started: list[str]) -> LabState:
        """Start the lab's fork server, unless it runs; `started` is told. Raises ServiceError, SetupError."""
        if not self._plan.forked or forks.runs(current):
            return current
        temporary.remove(self._layout.forks)  # sockets of one that has died
        temporary.make(self._layout.forks)
        started.append(FORKS)
        return self.spawn(current, FORKS)

    def _await_forks(self, current: LabState, on_progress: OnProgress, begin: float) -> None:
        """Wait until the fork server serves. Where it does not, nodes start in the ordinary way.

        All nodes of a call wait until the same time: `begin` and READY_SECONDS.
        """
        identity = current.leaders.get(FORKS)
        if not self._plan.forked or identity is None:
            return
        left = begin + forks.READY_SECONDS - self._clock()
        if not forks.wait_until_ready(self._layout, identity, left, self._clock):
            detail = f"does not serve, processes start slowly; see {self._layout.log(FORKS)}"
            on_progress(Progress(FORKS, State.EXITED, detail, self._clock() - begin))

    def spawn(self, current: LabState, service: str) -> LabState:
        """Start one process and write its identity down, with interrupts held back in between.

        What a fork server that is gone has left makes room. Raises ServiceError when it cannot be run.
        """
        if service == FORKS or is_node(service):
            forks.clear(self._layout, current)
        command = self._plan.command(service)
        log = self._layout.log(service)
        self._log_began[service] = size_of(log)
        self._first_began.setdefault(service, self._log_began[service])
        with held_back():
            try:
                identity = processes.spawn(command.argv, command.environment, log, command.cwd)
            except OSError as error:
                raise ServiceError(f"{service} could not be started: {error}") from error
            current = current.with_leader(service, identity)
            state.save(self._layout.folder, current)
        return current

    def join(
        self,
        current: LabState,
        node: str,
        on_progress: OnProgress,
        begin: float,
        others: Mapping[str, Identity] = NOBODY,
    ) -> LabState:
        """`wait` for a node that was spawned. One that Ray gave up is spawned again, TRIES times in all.

        Each time it has START_SECONDS. Raises what `wait` raises.
        """
        for number in range(2, TRIES + 2):
            try:
                self.wait(node, current.leaders[node], on_progress, begin, others)
            except ServiceError:
                if number > TRIES or not ray_gave_up(self._own_lines(node)):
                    raise
            else:
                break
            on_progress(Progress(node, State.STARTING, again(node, number), self._clock() - begin))
            current = self.spawn(current, node)
        return current

    def wait(
        self,
        service: str,
        identity: Identity,
        on_progress: OnProgress,
        begin: float,
        others: Mapping[str, Identity] = NOBODY,
    ) -> None:
        """Wait until a service is healthy, and meanwhile notice when one of `others` ends.

        Raises WaitTimeoutError, ServiceError, PortTakenError.
        """
        look_at_ports = self._clock() + PORTS_SECONDS

        def look() -> ServiceStatus:
            nonlocal look_at_ports
            status = self._status(service, identity)
            if status.state is State.HEALTHY:
                return status
            for name, leader in ((service, identity), *others.items()):
                self._check_alive(name, leader)
            if self._clock() >= look_at_ports:
                look_at_ports = self._clock() + PORTS_SECONDS
                taken = self._shut_out(service, identity)
                if taken is not None:
                    raise taken
            return status

        status = settle(
            look,
            lambda status: status.state is State.HEALTHY,
            timeout=START_SECONDS,
            clock=self._clock,
            every=POLL_SECONDS,
        )
        if status.state is not State.HEALTHY:
            raise WaitTimeoutError(
                late(service, START_SECONDS, status.detail, self._last_lines(service)),
                f"the whole log: {self._layout.log(service)}",
            )
        on_progress(Progress(service, State.HEALTHY, status.detail, self._clock() - begin))

    def _status(self, service: str, identity: Identity) -> ServiceStatus:
        """The status of a service that is starting."""
        seen = state.running(service, identity, self._plan.ports, self._view.world)
        cluster = self._view.cluster(seen, starting=True) if is_node(service) else ((), "")
        return self._view.status(service, seen, cluster)

    def _shut_out(self, service: str, identity: Identity) -> PortTakenError | None:
        """The error when somebody else holds a port of the service, also at a second look."""
        taken = None
        for _ in range(2):
            own = {process.pid for process in processes.members(identity, self._layout.mark(service))}
            taken = causes.shut_out(service, own, self._plan.ports)
            if taken is None:
                return None
        return taken

    def _check_alive(self, service: str, identity: Identity) -> None:
        code = processes.exit_code(identity)
        if code is not None or processes.find(identity) is None:
            processes.end(identity, self._layout.mark(service), grace=0)
            log = self._layout.log(service)
            raise causes.ended(service, code, self._last_lines(service), log, self._plan.ports)

    def _own_lines(self, service: str) -> tuple[str, ...]:
        """The last that the service wrote since it was started for the last time."""
        return output.last_lines(self._layout.log(service), LAST_LINES, since=self._log_began.get(service, 0))

    def _last_lines(self, service: str) -> tuple[str, ...]:
        """The same; of one that has written nothing yet, what it wrote when this call started it before."""
        first = self._first_began.get(service, 0)
        return self._own_lines(service) or output.last_lines(
            self._layout.log(service), LAST_LINES, since=first
        )

    def _set_up_store(self) -> None:
        from lab.store import setup

        setup.run(self._plan.url("s3"), self._plan.secrets.root, self._plan.secrets.store)

    def _staying(self, current: LabState, started: Sequence[str], ran: Collection[str]) -> set[str]:
        """The services that are left as they are although the repair that started them has failed."""
        alive = [
            name for name in started if name in current.leaders and processes.find(current.leaders[name])
        ]
        healthy = [
            name
            for name in alive
            if name == FORKS or self._status(name, current.leaders[name]).state is State.HEALTHY
        ]
        return staying(alive, ran, healthy)

    def _take_back(self, current: LabState, started: list[str]) -> None:
        if FORKS in started:
            forks.end(self._layout)
        for name in reversed(started):
            processes.end(current.leaders.get(name), self._layout.mark(name), grace=0)
            current = current.without_leader(name)
        if current.leaders:
            state.save(self._layout.folder, current)
        else:
            remove(self._layout.folder / state.FILE)
            temporary.remove(self._layout.ray_temporary)
            self._remove_scratch()

    def _remove_scratch(self) -> None:
        if self._plan.scratch is not None:
            temporary.remove(self._plan.scratch)
