"""The lab as plain data: its settings, its GPU plan, its state, where it can be reached."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from lab.errors import UsageError
from lab.services import PORT_NAMES, Service, worker
from lab.topology.address import Address

DEFAULT_LAB = "raylab"
BUCKET = "ray"
"""The bucket that training writes to: `s3://ray`."""

FOOD11 = "Food-11"
"""The folder of the data set Food-11 among the data sets."""

LEDGER_PREFIX = ".raylab/ledger"
"""Folder of the ledgers in BUCKET, one folder per job."""

RECEIPTS_PREFIX = ".raylab/receipts"
"""Folder of the receipts in BUCKET."""

REGION = "us-east-1"
"""The S3 region; any name does for one store, but pyarrow insists on having one."""

WORDS = {
    "stock_ray": ("stock Ray", "Ray with the lab's changes"),
    "gcs_ft": ("head's state in Redis", "head's state in memory"),
    "queued_only": ("jobs only through queues", "jobs also past the queues"),
    "plain_names": ("containers called like their services", "containers called after the lab"),
    "classroom": ("for a class", "for one person"),
    "address": ("{0.words}", "on this machine only"),
    "hub": ("with JupyterHub", "without JupyterHub"),
}
"""Setting -> words for a lab that has it, and for the usual one, which has not."""

OBJECT_STORE_BYTES = 200 * 1024**2
"""Shared memory of each node's Ray object store. The recipes move little through it; Ray's default, 30 % of
the machine's memory, would be counted once per node."""

MAX_WORKERS = 32
MAX_CPUS_PER_WORKER = 1024
MAX_CPUS, MAX_GPUS = 100_000, 10_000
"""The most that the entrypoint of a job may ask for."""


class Vendor(str, Enum):
    """Maker of the GPUs that the workers are pinned to."""

    NVIDIA = "nvidia"
    AMD = "amd"
    SIMULATED = "simulated"
    NONE = "none"


def device_name(gpu: str, device_nodes: tuple[str, ...]) -> str:
    """The name of a GPU that no other one of this machine has: AMD's render node, else `gpu` itself.

    Empty for a simulated one.
    """
    return next((node.rpartition("/")[2] for node in device_nodes if "/render" in node), gpu)


@dataclass(frozen=True)
class GpuAssignment:
    """The GPU of one worker: `gpu` is its UUID (NVIDIA), its index (AMD), or empty when simulated."""

    service: str
    gpu: str = ""
    name: str = ""
    device_nodes: tuple[str, ...] = ()
    """AMD: the device files that a container of this worker gets, /dev/kfd and the GPU's /dev/dri/renderD."""
    groups: tuple[int, ...] = ()
    """AMD: ids of the groups that own these files, in their order."""

    @property
    def device(self) -> str:
        """The GPU's name on this machine, whichever other GPUs a process sees: see `device_name`."""
        return device_name(self.gpu, self.device_nodes)


@dataclass(frozen=True)
class GpuPlan:
    """The GPU that each worker is pinned to, and the reason for this plan."""

    vendor: Vendor
    assignments: tuple[GpuAssignment, ...] = ()
    reason: str = ""

    def gpu_of(self, service: str) -> GpuAssignment | None:
        """The assignment of `service`, or None when it has no GPU."""
        return next((a for a in self.assignments if a.service == service), None)

    @property
    def devices(self) -> tuple[str, ...]:
        """The GPUs that are pinned, each once; none when they are simulated."""
        return tuple(dict.fromkeys(a.device for a in self.assignments if a.device))

    @property
    def shared(self) -> bool:
        """True when one GPU is pinned to more than one worker."""
        return bool(self.devices) and len(self.devices) < len(self.assignments)


@dataclass(frozen=True)
class LabSpec:
    """Settings of the lab that `up` is to start."""

    name: str = DEFAULT_LAB
    gpu: GpuPlan = field(default_factory=lambda: GpuPlan(Vendor.NONE))
    workers: int = 2
    cpus_per_worker: int = 8
    """Logical CPUs that each worker offers to Ray; a schedule, not a limit."""
    ports: tuple[tuple[str, int], ...] = ()
    """Ports the user chose: (port name, number). Every other port is a free one."""
    stock_ray: bool = False
    """Ray as it is, to compare: no change of the lab's to how it trains (see lab.cluster.patches,
    lab.cluster.ray_settings)."""
    gcs_ft: bool = False
    """Keep the state of Ray's head in Redis, so that the cluster outlives the head."""
    queued_only: bool = False
    """Stop jobs that are submitted to Ray past the queues."""
    plain_names: bool = False
    """Call containers as their services are called, as in the course."""
    classroom: bool = False
    """Serve people of a class, each with a token of her own, through the gateway."""
    address: Address | None = None
    """Where other machines reach the class; None: nowhere."""
    hub: bool = False
    """Start JupyterHub for them, with a JupyterLab each."""

    def __post_init__(self) -> None:
        check_lab_name(self.name)
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UsageError(f"--workers {self.workers}: must be between 1 and {MAX_WORKERS}")
        if not 1 <= self.cpus_per_worker <= MAX_CPUS_PER_WORKER:
            raise UsageError(
                f"--cpus-per-worker {self.cpus_per_worker}: must be between 1 and {MAX_CPUS_PER_WORKER}"
            )
        if self.address is not None and not self.classroom:
            raise UsageError("--address is for a class", "labctl up --class --address HOST")
        if self.hub and not self.classroom:
            raise UsageError("--hub: JupyterHub is for a class", "labctl up --class --hub")
        for name, port in self.ports:
            if name not in PORT_NAMES:
                raise UsageError(f"--port {name}={port}: unknown port", f"known: {', '.join(PORT_NAMES)}")
            if not 1024 <= port <= 65535:
                raise UsageError(f"--port {name}={port}: must be between 1024 and 65535")

    def unlike(self, other: LabSpec) -> str:
        """Settings of `other` that a lab with these does not have, in words; empty when it is the same lab.

        Ports are chosen once, at the start, and compared elsewhere.
        """
        differing = ", ".join(word for word in other._words if word not in self._words)
        if not differing and self.gpu.assignments != other.gpu.assignments:
            return "other GPUs"
        return differing

    def has(self, service: Service) -> bool:
        """True when a lab with these settings has this service, as far as settings decide."""
        return (
            (self.gcs_ft or not service.gcs_ft)
            and (self.classroom or not service.classroom)
            and (self.address is not None or not service.addressed)
            and (self.hub or not service.hub)
        )

    @property
    def settings(self) -> str:
        """The settings in a few words."""
        usual = [word for _, word in WORDS.values()]
        return ", ".join(word for word in self._words if word not in usual)

    @property
    def _words(self) -> tuple[str, ...]:
        devices = f" ({' '.join(self.gpu.devices)})" if self.gpu.devices else ""
        return (
            f"{self.workers} workers",
            f"{self.cpus_per_worker} CPUs each",
            f"GPU {self.gpu.vendor.value}{devices}",
            *(words.format(value) if (value := getattr(self, name)) else usual
              for name, (words, usual) in WORDS.items()),
        )  # fmt: skip

    @property
    def worker_services(self) -> tuple[str, ...]:
        """Names of the worker services, in order."""
        return tuple(worker(i) for i in range(self.workers))


Outcome = Literal["passed", "failed", "skipped", "warning"]


@dataclass(frozen=True)
class Check:
    """A question with its answer. `detail` gives the reason or the number, `hint` says what to do."""

    name: str
    outcome: Outcome
    detail: str
    hint: str = ""


JOB_FINAL = ("SUCCEEDED", "FAILED", "STOPPED")
"""Statuses of Ray's jobs after which nothing more happens."""

TAKEN_NAMES = {
    "data": "the data sets",
    "environments": "the Python environments of an installed labctl",
    "faults": "faults of one's own",
    "workspace": "recipes and notebooks of an installed labctl",
}
"""Folders beside the labs' own -> what they hold."""


def check_lab_name(name: str, said: str = "--lab") -> None:
    """Refuse what can be no lab's name (it becomes part of paths and project names). Raises UsageError.

    `said` is where the name comes from.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", name):
        raise UsageError(
            f"{said} {name!r}: not a lab name",
            "use 1 to 20 lower-case letters, digits and hyphens, starting with a letter",
        )
    if name in TAKEN_NAMES:
        holds = TAKEN_NAMES[name]
        raise UsageError(f"{said} {name}: not a lab name", f"that folder holds {holds}; choose another")


class State(str, Enum):
    """State of a service. `running` is alive but not yet able to serve; `healthy` serves."""

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"
    HEALTHY = "healthy"
    PAUSED = "paused"
    EXITED = "exited"


@dataclass(frozen=True)
class ServiceStatus:
    """One service, as seen now. `detail` always says why it is not healthy."""

    service: str
    state: State
    detail: str = ""
    url: str = ""
    pid: int | None = None
    container: str = ""


@dataclass(frozen=True)
class Struck:
    """The time in which something was done to a service: from right before the first of it until right after
    the last, in seconds since the epoch."""

    first: float
    last: float


@dataclass(frozen=True)
class LabStatus:
    """The whole lab, as seen now."""

    name: str
    runtime: str
    up: bool
    services: tuple[ServiceStatus, ...]
    gpu: GpuPlan
    notes: tuple[str, ...] = ()
    """Facts a person should know: which S3 server stands in, what was left out and why."""

    def service(self, name: str) -> ServiceStatus | None:
        """The status of one service, or None when the lab has no such service."""
        return next((s for s in self.services if s.service == name), None)

    @property
    def healthy(self) -> bool:
        """True when every service of the lab is healthy."""
        return self.up and all(s.state is State.HEALTHY for s in self.services)


@dataclass(frozen=True)
class Credentials:
    """A key of the object store."""

    access_key: str
    secret_key: str = field(repr=False)


@dataclass(frozen=True)
class Endpoints:
    """Addresses and keys of a running lab, for this machine. All URLs are on loopback."""

    dashboard: str
    gcs: str
    """host:port for `ray.init(address=...)` from inside the cluster."""
    s3: str
    credentials: Credentials
    ray_token: str = field(repr=False)
    ray_token_file: str = ""
    jupyter: str = ""
    """Includes the token."""
    prometheus: str = ""
    alertmanager: str = ""
    grafana: str = ""
    grafana_password: str = field(default="", repr=False)
    """Password of its user `admin`."""
    queue: str = ""
    """Controller of the queues, which wants Ray's token; empty where only a ledger is in reach."""
    gateway: str = ""
    """Ray's Jobs API and the queues for people with tokens of their own; empty but in a class."""
    address: str = ""
    """The class's one address for other machines; empty where it has none."""
    authority: str = ""
    """File (PEM) of the authority that vouches for the address; empty for a certificate of one's own."""
    hub: str = ""
    """JupyterHub; empty in a lab without."""
    ray_client: str = ""
    """Address for `ray.init` of programs outside of the lab; empty where that port is not open."""

    @property
    def by_gateway(self) -> bool:
        """True where a person of a class asks: for Ray and the queues there is only the gateway."""
        return self.dashboard == self.gateway


@dataclass(frozen=True)
class Progress:
    """One step of a long operation, for a person to follow."""

    service: str
    state: State
    detail: str = ""
    seconds: float = 0.0
    """Seconds since the operation began."""


@dataclass(frozen=True)
class Usage:
    """Usage of all processes of a service together: CPU in percent of one core, memory in bytes."""

    cpu_percent: float
    memory_bytes: int | None = None
    """None where the runtime does not measure it."""
