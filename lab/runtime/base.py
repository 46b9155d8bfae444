"""What a runtime can do. Faults, checks and flows know only this; none of them knows Docker or a process id.

A runtime instance stands for one lab name. It keeps nothing in memory that another shell would need: every
method reads the lab's state afresh, so `down`, `status` and `fault-inject` work from anywhere, also after
the process that ran `up` has died.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab.errors import UnsupportedError
from lab.topology import REGION, Endpoints, LabSpec, LabStatus, Progress

OnProgress = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """For callers that do not want to follow."""


@dataclass(frozen=True)
class Execution:
    """How a command inside a service ended: its exit code, and both output streams together."""

    exit_code: int
    output: str


@dataclass(frozen=True)
class Usage:
    """What all processes of a service use together: CPU in percent of one core, memory in bytes."""

    cpu_percent: float
    memory_bytes: int | None = None
    """None where the runtime does not measure it."""


class Runtime(ABC):
    """Runs the services of one lab."""

    kind: str
    """`local`, `compose` or `fake`."""

    def __init__(self, lab: str) -> None:
        self.lab = lab

    # The whole lab

    @abstractmethod
    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """Start every service that is not healthy and wait until all are. Idempotent; repairs a half-state.

        A lab that is up with another spec is left as it is. When it fails or is interrupted, what this call
        started is stopped again; what ran before stays.

        Raises PortTakenError, ServiceError, WaitTimeoutError, StoreError, GpuError, UnsupportedError;
        RefusedError when the lab is up with another spec.
        """

    def prepare(self, spec: LabSpec) -> tuple[str, ...]:
        """Do what `up` does before anything starts; returns the command that starts the lab by hand.

        Raises UnsupportedError where there is none, else what `up` raises.
        """
        del spec
        raise UnsupportedError(
            f"the {self.kind} runtime has no command to start a lab by hand", "use --runtime compose"
        )

    @abstractmethod
    def down(self, *, volumes: bool = False, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
        """Stop what runs, whatever half-state it is in; returns the services that were stopped.

        Stored objects survive unless `volumes` is true.
        """

    def kept(self) -> tuple[str, ...]:
        """Where the stored objects lie that `down` leaves: folders or volumes; empty when there are none."""
        return ()

    @abstractmethod
    def status(self) -> LabStatus:
        """The lab as it is now. Never raises because a service is broken: that is what it reports."""

    def refuse_own(self, *services: str) -> None:
        """Raises RefusedError when the calling process runs in one of these: ending it would end the call."""
        del services

    @abstractmethod
    def spec(self) -> LabSpec:
        """What the lab was started with. Raises LabDownError."""

    def usage(self, services: Sequence[str]) -> dict[str, Usage]:
        """What these services use now, measured over a moment. What cannot be measured is left out.

        Raises LabDownError, EngineError.
        """
        del services
        return {}

    @abstractmethod
    def endpoints(self) -> Endpoints:
        """How to reach the lab. Raises LabDownError."""

    def client_environment(self) -> dict[str, str]:
        """What a shell needs to use the lab with Ray's own tools, from this machine. Raises LabDownError."""
        endpoints = self.endpoints()
        return {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": endpoints.ray_token_file,
            "RAY_API_SERVER_ADDRESS": endpoints.dashboard,
            "AWS_ENDPOINT_URL": endpoints.s3,
            "AWS_ACCESS_KEY_ID": endpoints.credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": endpoints.credentials.secret_key,
            "AWS_REGION": REGION,
        }

    # One service. All raise NotFoundError for a service this lab does not have, LabDownError when it is down.

    @abstractmethod
    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """The service's own output, a line at a time without newline; the last `tail` lines if given."""

    @abstractmethod
    def kill(self, service: str) -> None:
        """SIGKILL every process of the service at once. It stays down."""

    @abstractmethod
    def stop(self, service: str, *, timeout: float = 10.0) -> None:
        """Ask the service to end, and kill what is left after `timeout` seconds. It stays down."""

    @abstractmethod
    def pause(self, service: str) -> None:
        """Freeze every process of the service."""

    @abstractmethod
    def resume(self, service: str) -> None:
        """Let a paused service go on; does nothing to one that is not paused."""

    @abstractmethod
    def execute(
        self,
        service: str,
        argv: Sequence[str],
        *,
        timeout: float = 60.0,
        on_line: Callable[[str], None] | None = None,
    ) -> Execution:
        """Run a command as the service would: in its container, or with its environment.

        `on_line` gets each line of its output, without newline, as soon as it is there; when it raises, the
        command is given up. What is given up may go on in a container.

        A command that is not found is an exit code other than 0. Raises WaitTimeoutError after `timeout`
        seconds, LabDownError also when the service is not running.
        """

    @abstractmethod
    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        """Bring a service that is down back and, with `wait`, wait until it is healthy. Idempotent.

        Raises ServiceError, WaitTimeoutError.
        """
