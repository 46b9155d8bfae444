"""The state file of a local lab: what was started, with identities that outlive a shell but not a reboot."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from lab.runtime import statefile
from lab.runtime.health import Seen, World
from lab.runtime.local import processes
from lab.runtime.local.processes import Identity, boot_id
from lab.services import REDIS, SERVICES, ports_of
from lab.topology import LabSpec, State

SCHEMA = "raylab-local/2"
FILE = statefile.LOCAL_FILE
PORTS = ports_of(
    (service for service in SERVICES if LabSpec().has(service) and not service.optional), scraped=False
)
"""Ports that every lab has."""

BOOT_TOLERANCE_SECONDS = 60.0
"""Seconds by which the time of the last boot may move, where it is computed from the time of day."""


@dataclass(frozen=True)
class LabState:
    """A lab as `up` left it."""

    spec: LabSpec
    ports: Mapping[str, int]
    booted_at: float
    """Time of the machine's boot (seconds since the epoch)."""
    boot: str
    """The name of that boot, or empty where the system gives it none."""
    store: str
    """The S3 server that runs: `minio` or `moto`."""
    leaders: Mapping[str, Identity] = field(default_factory=dict)
    """Service -> its first process. A service that was started once stays listed when it has died."""
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Services that are not started for want of their packages."""
    scratch: str = ""
    """Folder of its temporary files."""

    def __post_init__(self) -> None:
        missing = [name for name in PORTS if name not in self.ports]
        if missing:
            raise ValueError(f"no port {missing[0]}")

    @property
    def stale(self) -> bool:
        """True when the machine was rebooted since: then no process of this state can be alive."""
        now = boot_id()
        if now and self.boot:
            return now != self.boot
        return abs(psutil.boot_time() - self.booted_at) > BOOT_TOLERANCE_SECONDS

    @property
    def stand_in(self) -> bool:
        """True when moto serves in place of MinIO."""
        return self.store != "minio"

    def seen(self, service: str, world: World) -> Seen:
        identity = self.leaders.get(service)
        if identity is None:
            return Seen(State.ABSENT, "not started")
        process = None if self.stale else processes.find(identity)
        if process is None:
            return Seen(State.EXITED, "its process has ended")
        if processes.frozen([process]):
            return Seen(State.PAUSED, "its processes are frozen", pid=identity.pid)
        return running(service, identity, self.ports, world)

    def with_leader(self, service: str, identity: Identity) -> LabState:
        return dataclasses.replace(self, leaders={**self.leaders, service: identity})

    def without(self, left_out: Collection[str]) -> LabState:
        """This state with these services left out, and no others."""
        return dataclasses.replace(self, left_out=tuple(left_out))

    def without_leader(self, service: str) -> LabState:
        """This state as if the service had never been started."""
        return dataclasses.replace(self, leaders={k: v for k, v in self.leaders.items() if k != service})


def running(service: str, identity: Identity, ports: Mapping[str, int], world: World) -> Seen:
    own_check = world.redis(ports["redis"]) if service == REDIS else ""
    return Seen(State.RUNNING, "", identity.spawned_at, own_check, identity.pid)


def load(folder: Path) -> LabState | None:
    """The state in `folder`, or None when there is none. Raises StateError when it cannot be read."""
    return statefile.load(folder / FILE, SCHEMA, LabState)


def save(folder: Path, state: LabState) -> None:
    statefile.save(folder / FILE, SCHEMA, state)
