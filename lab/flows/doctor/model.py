"""Facts, gathered beforehand, and the answer that each check gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.cluster.api import Node
from lab.host.gpus import Detection
from lab.host.gpus.docker import GpuHost
from lab.host.listening import Listening
from lab.topology import LabStatus
from lab.topology.address import Address


@dataclass(frozen=True)
class Facts:
    """This machine. Sizes in bytes, times in seconds since the epoch; None is what could not be found out."""

    python: tuple[int, int, int]
    system: str
    """`Linux`, `Darwin` or `Windows`."""
    machine: str
    """The processor's architecture, such as `x86_64`."""
    libc: str
    """On Linux `glibc` and its version; empty for any other C library."""
    memory_available: int | None
    """Bytes that programs may still take, also within the limits of a container."""
    shm_free: int | None
    """Room in /dev/shm; None where there is none, as on macOS."""
    home: Path
    """The folder of all labs."""
    home_error: str
    """Reason why `home` cannot be written, or empty."""
    disk_free: int | None
    disk_total: int | None
    open_files: int | None
    """Number that the limit can be raised to without privileges."""
    now: float
    newest_file: float
    """Time at which the newest file of labctl was written."""
    ray: str
    """The installed version, or empty."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Patch that does not fit the installed Ray -> what is another than it expects."""


@dataclass(frozen=True)
class Tools:
    """Programs and devices that a lab can use."""

    binaries: Mapping[str, str]
    """Program -> its path, for those on PATH."""
    docker: str
    """The engine's version, or empty."""
    docker_error: str
    """Reason why no engine answers, or empty."""
    nvidia: Detection
    amd: Detection


@dataclass(frozen=True)
class Containers:
    """Facts of Docker beyond an engine that answers. Empty is what could not be found out."""

    compose: str = ""
    """Version of the Compose plugin."""
    error: str = ""
    """Reason why a lab of containers cannot be started, or empty."""
    hint: str = ""
    gpus: GpuHost = field(default_factory=GpuHost)


@dataclass(frozen=True)
class ListeningPort:
    """A TCP port on which a part of the lab accepts connections."""

    service: str
    socket: Listening


@dataclass(frozen=True)
class ProbedPage:
    """Answer to a GET: an HTTP status and the server's clock, or an error."""

    status: int | None = None
    error: str = ""
    date: float | None = None
    """The answer's Date header in seconds since the epoch; it has whole seconds."""
    asked_at: float = 0.0


@dataclass(frozen=True)
class ProbedAddress:
    """The one address of a class, as it was asked from here."""

    address: Address
    known: tuple[str, ...]
    """IP addresses of its host."""
    error: str = ""
    """Reason why it does not serve, or is not trusted; empty when all is well."""
    ends: float = 0.0
    """End of its certificate in seconds since the epoch."""
    asked_at: float = 0.0


@dataclass(frozen=True)
class RunningLab:
    """A lab that is up, as seen from outside."""

    status: LabStatus
    dashboard: ProbedPage
    """With the token."""
    anonymous: ProbedPage
    """The same without."""
    nodes: tuple[Node, ...] = ()
    nodes_error: str = ""
    store_error: str | None = ""
    """Error of writing, reading and deleting an object; empty when it worked, None where there is none."""
    store_server: str = ""
    """The object store's own name."""
    listeners: tuple[ListeningPort, ...] | None = field(default=())
    """None when this user may not see them."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Patch that does not fit the head's Ray -> what is another than it expects."""
    address: ProbedAddress | None = None
    """None in a lab that other machines do not reach."""
    unfit_error: str = ""
    """Reason why the head could not be asked for that, or empty."""
