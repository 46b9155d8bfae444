"""Three interfaces to one lab, each with all of the one before: to look at, to break, to start and to stop.

A reader takes a `LabView`, a fault a `NodeControl`; a `Runtime` is what only the host of the lab has. None of
their users knows Docker or a process id.

An instance stands for one lab name. It keeps nothing in memory that another shell would need: every method
reads the lab's state afresh, so `down`, `status` and `fault-inject` work from anywhere, also after the
process that ran `up` has died.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from lab.errors import LabDownError, UnsupportedError
from lab.services import is_worker
from lab.topology import (
    Credentials,
    Endpoints,
    LabSpec,
    LabStatus,
    Progress,
    Struck,
    Usage,
)

if TYPE_CHECKING:
    from lab.evidence.receipt.model import Source
    from lab.runtime.homes import Homes

OnProgress = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None:
    """No-op, for callers that do not want to follow."""


@dataclass(frozen=True)
class Execution:
    """End of a command inside a service: its exit code, and both output streams together."""

    exit_code: int
    output: str


class Feature(str, Enum):
    """A resource that not all labs give each service of its own, and that some faults need."""

    NETWORK = "network"
    """A network interface, which can be cut off and slowed down."""
    NETWORK_DELAY = "network-delay"
    """A kernel that can delay what is sent over that interface."""
    NETWORK_LOSS = "network-loss"
    """A kernel that can lose part of what is sent over it."""
    MEMORY_LIMIT = "memory-limit"
    """A limit of its memory: what goes beyond is killed, and nothing else."""
    SCRATCH_DISK = "scratch-disk"
    """A small disk for temporary files, at TMPDIR: when it is full, nothing else is."""
    PROCESSES = "processes within reach"
    """Processes that labctl can freeze, and start others beside: for every fault but those for clusters."""
    CORDON = "machine to be cordoned"
    """A machine that can be told to take nothing new, with a scheduler that goes elsewhere then."""


class LabView(ABC):
    """One lab, to look at: its status, settings and addresses."""

    kind: str
    """`local`, `compose`, `class`, `inside`, `kubernetes` or `outside`."""
    needs_engine: bool = False
    """True where it is a Docker Engine of this machine that runs the services."""
    queue: str = ""
    """LocalQueue of jobs that name none; empty where those go to Ray past the queues."""
    not_asked: Mapping[Source, str] = MappingProxyType({})
    """Sources of a receipt that are out of reach by design -> the reason."""

    def __init__(self, lab: str) -> None:
        self.lab = lab

    @property
    def person(self) -> str:
        """The person of a class whose view it is; empty for the lab's owner. Raises what `status` raises."""
        return ""

    @abstractmethod
    def status(self) -> LabStatus:
        """The lab as it is now. Never raises because a service is broken: that is what it reports.

        Raises StateError when services run of which no state file tells: all that can be done is `down`.
        """

    @abstractmethod
    def spec(self) -> LabSpec:
        """The settings that the lab was started with. Raises LabDownError, StateError, UnsupportedError."""

    @abstractmethod
    def endpoints(self) -> Endpoints:
        """Addresses and keys to reach the lab. Raises LabDownError, UnsupportedError."""

    def logs(self, service: str, *, follow: bool = False, tail: int | None = None) -> Iterator[str]:
        """The service's own output, a line at a time without newline; the last `tail` lines if given.

        Raises NotFoundError for a service that this lab does not have, LabDownError when it is down,
        UnsupportedError where its output is out of reach.
        """
        del follow, tail
        raise self.refusal(f"read the log of {service}", f"logs {service}")

    def kept(self) -> tuple[str, ...]:
        """Folders or volumes with the stored objects that `down` leaves; empty when there are none."""
        return ()

    def usage(self, services: Sequence[str]) -> dict[str, Usage]:
        """CPU and memory of these services now, over a moment. What cannot be measured is left out.

        Raises LabDownError, EngineError.
        """
        del services
        return {}

    def advice(self, commands: Sequence[str], in_python: str) -> str:
        """A hint to run these commands of labctl; `in_python` goes on with the same in Python."""
        return ", ".join(f"`labctl {command} --lab {self.lab}`" for command in commands) + in_python

    def refusal(self, act: str, command: str) -> UnsupportedError:
        """The error for an act (a verb and its object) that is not possible from here.

        `command` is that of labctl for it where it is possible.
        """
        del command
        return UnsupportedError(f"the {self.kind} runtime cannot {act}", "use --runtime compose")


class NodeControl(LabView):
    """One lab whose services can be broken and brought back.

    All methods for one service raise NotFoundError for one that this lab does not have, LabDownError when it
    is down, and UnsupportedError where the lab lacks the feature under which they stand.
    """

    @abstractmethod
    def folder(self) -> Path:
        """The folder where labctl keeps notes of this lab on this machine. It may not exist yet."""

    def is_worker(self, service: str) -> bool:
        """True when this service is a node that runs ranks of jobs. Raises NotFoundError."""
        return is_worker(service)

    def missing(self, feature: Feature) -> str:
        """The reason why services here do not have this; empty when they do.

        Raises EngineError where the answer takes a look at the machine.
        """
        if feature is Feature.PROCESSES:
            return ""
        return f"services of the {self.kind} runtime have no {feature.value} of their own"

    @abstractmethod
    def kill(self, service: str) -> Struck:
        """SIGKILL every process of the service at once. It stays down."""

    @abstractmethod
    def stop(self, service: str, *, timeout: float = 10.0) -> Struck:
        """Ask the service to end, and kill what is left after `timeout` seconds. It stays down."""

    @abstractmethod
    def start(self, service: str, on_progress: OnProgress = ignore_progress, *, wait: bool = True) -> None:
        """Bring a service that is down back and, with `wait`, wait until it is healthy. Idempotent.

        A node that Ray gives up meanwhile is started again, and `on_progress` says so; without `wait` nobody
        does that before the next `start`. Raises ServiceError, WaitTimeoutError.
        """

    def undone(self, service: str) -> str:
        """Words for the moment at which a fault on this service has been undone."""
        return f"{service} is healthy again"

    # With Feature.PROCESSES

    def pause(self, service: str) -> Struck:
        """Freeze every process of the service."""
        raise self._lacks(Feature.PROCESSES, f"pause {service}")

    def resume(self, service: str) -> None:
        """Let a paused service go on; does nothing to one that is not paused."""
        raise self._lacks(Feature.PROCESSES, f"resume {service}")

    def crash(self, service: str) -> Struck:
        """SIGKILL every process of the service; it comes back by itself, as under a supervisor.

        Does not wait for it. Raises EngineError, ServiceError.
        """
        raise self._lacks(Feature.PROCESSES, f"crash {service}")

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
        del argv, timeout, on_line
        raise self._lacks(Feature.PROCESSES, f"run a command in {service}")

    def set_training_key(self, enabled: bool) -> None:
        """Let the object store refuse the training key from now on, or accept it again. Idempotent.

        The root key is not touched. Takes effect within a second. Raises LabDownError, StoreError.
        """
        del enabled
        raise self._lacks(Feature.PROCESSES, "take rights from the training key")

    # With Feature.NETWORK

    def disconnect(self, service: str) -> Struck:
        """Cut the service off the lab's network; its processes go on. Idempotent. Raises EngineError."""
        raise self._lacks(Feature.NETWORK, f"cut {service} off from the network")

    def reconnect(self, service: str) -> None:
        """Undo `disconnect`: the same address and names. Idempotent. Raises EngineError."""
        raise self._lacks(Feature.NETWORK, f"connect {service} to the network")

    def impair(
        self, service: str, *, delay_ms: float = 0.0, loss_percent: float = 0.0, rate_mbit: float = 0.0
    ) -> None:
        """Slow down what the service sends and gets, each way: 0 leaves that as it is. Replaces what was.

        `delay_ms` is added to every packet, `loss_percent` of the packets are lost, and at most `rate_mbit`
        (10^6 bits per second) get through. Raises UnsupportedError when the machine cannot do one of them,
        EngineError.
        """
        del delay_ms, loss_percent, rate_mbit
        raise self._lacks(Feature.NETWORK, f"slow down the network of {service}")

    def unimpair(self, service: str) -> None:
        """Undo `impair`. Idempotent; does nothing to a service that is down. Raises EngineError."""
        raise self._lacks(Feature.NETWORK, f"speed up the network of {service}")

    # With Feature.CORDON

    def machine(self, service: str) -> str:
        """The machine that the service runs on, which takes new ones until now. Raises RefusedError."""
        raise self._lacks(Feature.CORDON, f"find the machine of {service}")

    def cordon(self, machine: str) -> None:
        """Let a machine take nothing new; what runs there goes on."""
        raise self._lacks(Feature.CORDON, f"cordon {machine}")

    def uncordon(self, machine: str) -> None:
        """Undo `cordon`. Idempotent."""
        raise self._lacks(Feature.CORDON, f"uncordon {machine}")

    def _lacks(self, feature: Feature, act: str) -> UnsupportedError:
        elsewhere = "kubernetes" if feature is Feature.CORDON else "compose"
        return UnsupportedError(f"cannot {act}: {self.missing(feature)}", f"use --runtime {elsewhere}")


class Runtime(NodeControl):
    """Runs the services of one lab, on this machine.

    What changes which of them run (`up`, `down`, `start`, `crash`) takes turns among all labctl of a machine:
    it waits for another one that does so, and raises SetupError in the end.
    """

    # The whole lab

    @abstractmethod
    def up(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """Start every service that is not healthy and wait until all are. Idempotent; repairs a half-state.

        A lab that is up with another spec is left as it is. When it fails or is interrupted, what this call
        started is stopped again; what ran before stays, and in a lab that was up so does what this call has
        made healthy. A node that Ray gives up while it starts is started again (lab.runtime.starting).

        Raises PortTakenError, ServiceError, WaitTimeoutError, StoreError, GpuError, UnsupportedError;
        RefusedError when the lab is up with another spec, StateError when it runs without a state file.
        """

    def up_to_train(self, spec: LabSpec, on_progress: OnProgress = ignore_progress) -> LabStatus:
        """Like `up`, but a service that no training needs, and whose packages are not installed, is left out.

        The lab is as one that has no such service, and a note says so, until the next `up`,
        `start_left_out` or `start` of that service installs its packages and starts it.
        """
        return self.up(spec, on_progress)

    def start_left_out(self, on_progress: OnProgress = ignore_progress) -> None:
        """Start what `up_to_train` left out; a no-op where there is nothing. Raises what `start` raises."""
        del on_progress

    def provide(self, group: str) -> None:
        """Make a group of packages importable on the nodes, unless their image has it; no-op without a name.

        Raises SetupError where they cannot be had.
        """
        del group

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

        Stored objects survive unless `volumes` is true. Raises what `refuse_down` raises, with nothing
        changed.
        """

    def refuse_down(self, *, volumes: bool = False) -> None:
        """Refuse what `down` would. Raises RefusedError, EngineError."""
        del volumes

    def refuse_own(self, *services: str) -> None:
        """Refuse to end what the calling process runs in: it would end the call. Raises RefusedError."""
        del services

    def homes(self) -> Homes:
        """The homes of the people of a class with JupyterHub. Raises LabDownError."""
        from lab.api.hub import homes
        from lab.runtime.homes import Homes

        return Homes(homes(self.folder()))

    def store_owner(self) -> Credentials:
        """The root key of the lab's object store. Raises UnsupportedError where this runtime has none."""
        raise UnsupportedError(
            f"the {self.kind} runtime does not have the store's root key", "use another --runtime"
        )

    def _down_error(self) -> LabDownError:
        return LabDownError(f"lab {self.lab} is not up", "`labctl up` starts it")


def control_of(lab: LabView, act: str, command: str) -> NodeControl:
    """The same lab, if its services can be broken from here; else raises its refusal of this act."""
    if isinstance(lab, NodeControl):
        return lab
    raise lab.refusal(act, command)


def host_of(lab: LabView, act: str, command: str) -> Runtime:
    """The same lab, if it can be started and stopped from here; else raises its refusal of this act."""
    if isinstance(lab, Runtime):
        return lab
    raise lab.refusal(act, command)
