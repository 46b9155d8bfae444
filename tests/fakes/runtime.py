"""The fake runtime itself: lab.runtime.base's interface over a FakeHost, and what tests script with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lab.cluster.api import Node
from lab.errors import ClusterError, LabDownError, NotFoundError, RefusedError, WaitTimeoutError
from lab.runtime.base import Execution, Feature, OnProgress, Runtime, ignore_progress
from lab.services import HEAD
from lab.topology import (
    Credentials,
    Endpoints,
    GpuPlan,
    LabSpec,
    LabStatus,
    Progress,
    State,
    Struck,
    Vendor,
)
from tests.fakes.host import BACK_SECONDS, Call, FakeHost, LabState

POLL_SECONDS = 0.1
START_SECONDS = 120.0
"""Deadline for one service to become healthy, in the clock's time."""


class FakeRuntime(Runtime):
    """A lab without processes. `clock` is the host's."""

    kind = "fake"

    def __init__(self, lab: str, host: FakeHost | None = None) -> None:
        """`host` is shared by runtimes that are to see one another's labs; by default it is a new one."""
        super().__init__(lab)
        self.host = host if host is not None else FakeHost()
        self.clock = self.host.clock

    # The whole lab

    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """See Runtime.up."""
        self._note("up")
        lab = self.host.labs.get(self.lab)
        repair = lab is not None and lab.up
        if lab is not None and lab.up and _settings(lab.spec) != _settings(spec):
            raise RefusedError(
                f"lab {self.lab} is up with other settings", "keep them, or `labctl down` first"
            )
        if lab is None or not lab.up:
            self.host.labs.pop(self.lab, None)
            lab = self.host.labs[self.lab] = LabState(spec, self.host.choose_ports(spec), self.clock)
        self.host.objects.setdefault(self.lab, {})
        begin = self.clock()
        started: list[str] = []
        try:
            for service in lab.services:
                if lab.state(service) is not State.HEALTHY:
                    started.append(service)
                    self._spawn(lab, service)
                    on_progress(Progress(service, State.STARTING, "", self.clock() - begin))
                    self._await(lab, service, on_progress, begin)
        except BaseException:
            for service in started:
                if not (repair and lab.state(service) is State.HEALTHY):
                    lab.end(service, "stopped because `up` failed", goodbye=True)
            if not lab.up:
                del self.host.labs[self.lab]
            raise
        return self._status()

    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """See Runtime.down."""
        self._note("down")
        stopped = []
        lab = self.host.labs.pop(self.lab, None)
        for service in reversed(lab.services) if lab else ():
            process = lab.processes.get(service) if lab else None
            if process is not None and process.alive:
                process.alive = False
                stopped.append(service)
                on_progress(Progress(service, State.EXITED, "stopped"))
        if volumes:
            self.host.objects.pop(self.lab, None)
            for key in [key for key in self.host.logs if key[0] == self.lab]:
                del self.host.logs[key]
        return tuple(stopped)

    def status(self) -> LabStatus:
        """See Runtime.status. To a service that is starting, every call is a poll (see `slow_start`)."""
        self._note("status")
        lab = self.host.labs.get(self.lab)
        for process in lab.processes.values() if lab else ():
            process.polls = max(0, process.polls - 1)
        return self._status()

    def kept(self) -> tuple[str, ...]:
        """See Runtime.kept."""
        self._note("kept")
        return ("the fake disk",) if self.host.objects.get(self.lab) else ()

    def spec(self) -> LabSpec:
        """See Runtime.spec."""
        self._note("spec")
        return self._up_lab().spec

    def endpoints(self) -> Endpoints:
        """See Runtime.endpoints."""
        self._note("endpoints")
        lab = self._up_lab()
        return Endpoints(
            dashboard=lab.url("dashboard"),
            gcs=f"127.0.0.1:{lab.ports['gcs']}",
            s3=lab.url("s3"),
            credentials=Credentials(f"access-{self.lab}", f"secret-{self.lab}"),
            ray_token=f"token-{self.lab}",
            jupyter=f"{lab.url('jupyter')}/?token=jupyter-{self.lab}",
            queue=lab.url("queue"),
            gateway=lab.url("gateway") if lab.spec.classroom else "",
            address=address.url if (address := lab.spec.address) else "",
            authority=str(self.folder() / "root.crt") if address and address.own_authority else "",
            hub=lab.url("hub") if lab.spec.hub else "",
        )

    def missing(self, feature: Feature) -> str:
        """See Runtime.missing: nothing is, but what a test said with `lack`."""
        return self.host.lacking.get(feature, "")

    def folder(self) -> Path:
        """See Runtime.folder."""
        return self.host.folder / self.lab

    def set_training_key(self, enabled: bool) -> None:
        """See Runtime.set_training_key. A test reads what is set in `training_key`."""
        self._note("enable_key" if enabled else "disable_key")
        self._up_lab().training_key = enabled

    # One service

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """See Runtime.logs. Following ends when the service does, or when nothing more can happen."""
        self._note("logs", service)
        lab = self.host.labs.get(self.lab)
        if lab is None:
            raise self._down_error()
        self._known(lab, service)
        return self._lines(lab, service, follow, tail)

    def kill(self, service: str) -> Struck:
        """See Runtime.kill."""
        self._note("kill", service)
        self._running(service).end(service, "its process was killed")
        return self._now()

    def _now(self) -> Struck:
        return Struck(self.clock(), self.clock())

    def stop(self, service: str, *, timeout: float = 10.0) -> Struck:
        """See Runtime.stop. A fake service ends at once."""
        self._note("stop", service)
        self._running(service).end(service, "its process was stopped", goodbye=True)
        return self._now()

    def pause(self, service: str) -> Struck:
        """See Runtime.pause."""
        self._note("pause", service)
        process = self._running(service).processes[service]
        if process.paused_at is None:
            process.paused_at = process.silent_since = self.clock()
        return self._now()

    def resume(self, service: str) -> None:
        """See Runtime.resume."""
        self._note("resume", service)
        lab = self._up_lab()
        self._known(lab, service)
        if lab.state(service) is State.PAUSED:
            lab.resume(service)

    def crash(self, service: str) -> Struck:
        """See Runtime.crash. The new process is there BACK_SECONDS later."""
        self._note("crash", service)
        lab = self._running(service)
        lab.end(service, "its processes were killed")
        died = lab.processes[service]

        def come_back() -> None:
            if self.host.labs.get(self.lab) is lab and lab.processes[service] is died:
                self._spawn(lab, service)

        self.clock.after(BACK_SECONDS, come_back)
        return self._now()

    def disconnect(self, service: str) -> Struck:
        """See Runtime.disconnect."""
        self._note("disconnect", service)
        lab = self._running(service)
        if service not in lab.cut:
            lab.disconnect(service)
        return self._now()

    def reconnect(self, service: str) -> None:
        """See Runtime.reconnect."""
        self._note("reconnect", service)
        lab = self._up_lab()
        self._known(lab, service)
        if service in lab.cut:
            lab.reconnect(service)

    def impair(
        self, service: str, *, delay_ms: float = 0.0, loss_percent: float = 0.0, rate_mbit: float = 0.0
    ) -> None:
        """See Runtime.impair. Nothing gets slower; a test reads what is set in `impaired`."""
        self._note("impair", service)
        lab = self._running(service)
        lab.impaired[service] = {
            "delay_ms": delay_ms,
            "loss_percent": loss_percent,
            "rate_mbit": rate_mbit,
        }

    def unimpair(self, service: str) -> None:
        """See Runtime.unimpair."""
        self._note("unimpair", service)
        lab = self._up_lab()
        self._known(lab, service)
        lab.impaired.pop(service, None)

    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        """See Runtime.start. A paused service stays paused. Without `wait`, a failure is in the status."""
        self._note("start", service)
        lab = self._up_lab()
        self._known(lab, service)
        state = lab.state(service)
        if state in (State.HEALTHY, State.PAUSED):
            return
        if state is not State.STARTING:
            self._spawn(lab, service)
        if wait:
            self._await(lab, service, on_progress, self.clock())
        elif error := self.host.failures.pop((self.lab, service), None):
            lab.end(service, str(error))

    def execute(
        self,
        service: str,
        argv: Sequence[str],
        *,
        timeout: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> Execution:
        """See Runtime.execute. Answers what `answer` says; any other command is not found."""
        self._note("execute", service)
        if self._running(service).state(service) is State.PAUSED:
            raise WaitTimeoutError(f"`{' '.join(argv)}` has not ended after {timeout:g} s")
        missing = Execution(127, f"{argv[0]}: not found\n")
        ended = self.host.answers.get((self.lab, service, tuple(argv)), missing)
        if on_line is not None:
            for line in ended.output.splitlines():
                on_line(line)
        return ended

    # For tests: what is to happen

    def answer(self, service: str, argv: Sequence[str], output: str, exit_code: int = 0) -> None:
        """From now on this command in `service` ends so."""
        self.host.answers[self.lab, service, tuple(argv)] = Execution(exit_code, output)

    def fail_on_start(self, service: str, error: BaseException) -> None:
        """Let the next start of `service` raise `error` (KeyboardInterrupt plays Ctrl-C)."""
        self.host.failures[self.lab, service] = error

    def slow_start(self, service: str, polls: int) -> None:
        """From now on `service` takes `polls` polls to be healthy; who waits polls ten times a second."""
        self.host.delays[self.lab, service] = polls

    def die(self, service: str, detail: str = "its process has ended") -> None:
        """End a service as if by itself."""
        self._up_lab().end(service, detail)

    def lack(self, feature: Feature, why: str) -> None:
        """From now on the services of this machine do not have `feature`."""
        self.host.lacking[feature] = why

    def say(self, service: str, line: str) -> None:
        """Append a line to the service's log."""
        self.host.logs.setdefault((self.lab, service), []).append(line)

    # For tests: what happened

    def calls(self, *methods: str) -> tuple[tuple[str, ...], ...]:
        """(method, service) or (method,) of this lab's calls in order; only of `methods`, if given."""
        return tuple(
            (call.method, call.service) if call.service else (call.method,)
            for call in self.host.journal
            if call.lab == self.lab and (not methods or call.method in methods)
        )

    def nodes(self) -> tuple[Node, ...]:
        """Ray's node list, as RayApi.nodes. Raises ClusterError while the head does not serve."""
        lab = self._up_lab()
        if lab.state(HEAD) is not State.HEALTHY:
            raise ClusterError(f"Ray's dashboard at {lab.url('dashboard')} does not answer")
        return lab.node_list()

    @property
    def objects(self) -> dict[str, bytes]:
        """The bucket: key -> content. Raises LabDownError."""
        self._up_lab()
        return self.host.objects[self.lab]

    @property
    def impaired(self) -> dict[str, dict[str, float]]:
        """Service -> how its network is slowed down (see `impair`). Raises LabDownError."""
        return self._up_lab().impaired

    @property
    def training_key(self) -> bool:
        """True when the store accepts the training key. Raises LabDownError."""
        return self._up_lab().training_key

    # Inside

    def _note(self, method: str, service: str = "") -> None:
        self.host.journal.append(Call(self.lab, method, service, self.clock()))

    def _status(self) -> LabStatus:
        lab = self.host.labs.get(self.lab)
        if lab is None:
            return LabStatus(self.lab, self.kind, False, (), GpuPlan(Vendor.NONE))
        services = tuple(lab.status(service) for service in lab.services)
        return LabStatus(self.lab, self.kind, lab.up, services, lab.spec.gpu, ("S3 server: a dictionary",))

    def _up_lab(self) -> LabState:
        lab = self.host.labs.get(self.lab)
        if lab is None or not lab.up:
            raise self._down_error()
        return lab

    def _known(self, lab: LabState, service: str) -> None:
        if service not in lab.services:
            raise NotFoundError(
                f"lab {self.lab} has no service {service!r}", f"it has: {', '.join(lab.services)}"
            )

    def _running(self, service: str) -> LabState:
        lab = self._up_lab()
        self._known(lab, service)
        if lab.state(service) in (State.ABSENT, State.EXITED):
            raise LabDownError(f"{service} is not running", f"`labctl restart {service}` starts it")
        return lab

    def _spawn(self, lab: LabState, service: str) -> None:
        lab.spawn(service, next(self.host.pids), self.host.delays.get((self.lab, service), 0))
        self.say(service, f"{service} started")

    def _await(self, lab: LabState, service: str, on_progress: OnProgress, begin: float) -> None:
        if error := self.host.failures.pop((self.lab, service), None):
            lab.end(service, str(error))
            raise error
        deadline = self.clock() + START_SECONDS
        while lab.state(service) is not State.HEALTHY:
            if self.clock() >= deadline:
                detail = lab.status(service).detail
                raise WaitTimeoutError(f"{service} is not healthy after {START_SECONDS:g} s: {detail}")
            self.clock.sleep(POLL_SECONDS)
            lab.processes[service].polls = max(0, lab.processes[service].polls - 1)
        on_progress(Progress(service, State.HEALTHY, "", self.clock() - begin))

    def _lines(self, lab: LabState, service: str, follow: bool, tail: int | None) -> Iterator[str]:
        lines = self.host.logs.setdefault((self.lab, service), [])
        shown = 0 if tail is None else max(0, len(lines) - tail)
        while True:
            while shown < len(lines):
                shown += 1
                yield lines[shown - 1]
            running = self.host.labs.get(self.lab) is lab and lab.status(service).pid is not None
            if not follow or not running or not self.clock.anything_due:
                return
            self.clock.sleep(POLL_SECONDS)


def _settings(spec: LabSpec) -> tuple[object, ...]:
    return spec.gpu.vendor, spec.gpu.assignments, spec.workers, spec.cpus_per_worker, spec.gcs_ft
