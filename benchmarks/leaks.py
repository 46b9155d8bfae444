"""Resources of an idle lab: processes, memory, disk, and the remains of faults."""

from __future__ import annotations

import dataclasses
import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from lab.errors import LabError
from lab.lab import Lab
from lab.runtime.active_faults import ActiveFaults
from lab.runtime.local.processes import FORK_SERVER_OF, MARK
from lab.services import is_node
from lab.topology import State

SETTLE_SECONDS = 90.0
"""Timeout for the processes of a finished job to exit."""

LOOK_SECONDS = 3.0
SAME_LOOKS = 3
"""Number of successive polls with the same number of processes after which the lab counts as settled."""

INSIDE = """
import os
names = [n for n in os.listdir("/proc") if n.isdigit() and n != str(os.getpid())]
size = 0
for folder, _, files in os.walk("/tmp"):
    for file in files:
        try:
            size += os.lstat(os.path.join(folder, file)).st_size
        except OSError:
            pass
memory = 0
for name in names:
    try:
        rows = [line.split() for line in open("/proc/" + name + "/smaps_rollup")]
        memory += sum(int(row[1]) * 1024 for row in rows if row[0] == "Pss:")
    except OSError:
        pass
print(len(names), size, memory)
"""
"""Script that counts processes, the bytes below /tmp and the processes' memory (PSS) in a container."""


@dataclass(frozen=True)
class Idle:
    """A lab in which no job runs. `at` is in seconds since the epoch."""

    at: float
    processes: Mapping[str, int]
    """Service -> number of processes."""
    memory_bytes: Mapping[str, int]
    """Service -> memory of all its processes together; in containers of the nodes only."""
    disk_bytes: Mapping[str, int]
    """`objects` in the store (checkpoints, ledgers, receipts), `logs`, `ray` (its session), `rest`."""
    faults_left: tuple[str, ...]
    """Faults that are on record as active although none lasts."""
    ill: tuple[str, ...]
    """Unhealthy services, with their state."""

    @property
    def totals(self) -> dict[str, int]:
        """Processes, MB of memory, MB of disk by purpose."""
        disk = {f"{name} MB": round(size / 1e6) for name, size in self.disk_bytes.items()}
        return {
            "processes": sum(self.processes.values()),
            "memory MB": round(sum(self.memory_bytes.values()) / 1e6),
            **disk,
        }

    def document(self) -> dict[str, object]:
        """Return it as JSON."""
        return {**dataclasses.asdict(self), "totals": self.totals}


def idle(lab: Lab) -> Idle:
    """Wait until the processes of the last job have exited, and measure."""
    deadline = time.monotonic() + SETTLE_SECONDS
    looks = [_processes(lab)]
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        looks.append(_processes(lab))
        if len(looks) >= SAME_LOOKS and len({sum(look.values()) for look in looks[-SAME_LOOKS:]}) == 1:
            break
    status = lab.status()
    usage = lab.runtime.usage([service.service for service in status.services])
    memory = {name: used.memory_bytes for name, used in usage.items() if used.memory_bytes}
    if lab.runtime.kind == "compose":
        memory = {service: bytes_ for service, (_, _, bytes_) in _inside(lab).items()}
    return Idle(
        at=time.time(),
        processes=looks[-1],
        memory_bytes=memory,
        disk_bytes=_disk(lab),
        faults_left=tuple(entry.name for entry in ActiveFaults(lab.runtime.folder()).lasting()),
        ill=tuple(
            f"{s.service} is {s.state.value} {s.detail}".strip()
            for s in status.services
            if s.state is not State.HEALTHY
        ),
    )


def _processes(lab: Lab) -> dict[str, int]:
    if lab.runtime.kind == "compose":
        return {service: count for service, (count, _, _) in _inside(lab).items()}
    crashes: Counter[str] = Counter()
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            mark = environment.get(MARK, "") or f"{environment.get(FORK_SERVER_OF, '')}:forks"
            folder, _, service = mark.rpartition(":")
        except psutil.Error:
            continue
        if folder == str(lab.runtime.folder()):
            crashes[service] += 1
    return dict(sorted(crashes.items()))


def _disk(lab: Lab) -> dict[str, int]:
    folder = lab.runtime.folder()
    objects = sum(entry.size for entry in lab.store.list())
    logs = size(folder / "logs")
    if lab.runtime.kind == "compose":
        ray, kept = sum(bytes_ for _, bytes_, _ in _inside(lab).values()), 0
    else:
        ray, kept = sum(size(path) for path in _sessions(folder)), size(folder / "objects")
    return {"objects": objects, "logs": logs, "ray": ray, "rest": max(0, size(folder) - logs - kept)}


def _sessions(folder: Path) -> set[Path]:
    """Find the session folders of Ray in a lab of processes, by the command lines of its processes."""
    folders = set()
    for process in psutil.process_iter():
        try:
            owner = process.environ().get(MARK, "").rpartition(":")[0]
            words = process.cmdline() if owner == str(folder) else []
        except psutil.Error:
            continue
        folders |= {Path(word.partition("=")[2]) for word in words if word.startswith("--temp-dir=")}
    return folders


def _inside(lab: Lab) -> dict[str, tuple[int, int, int]]:
    """Return node -> number of processes in its container, bytes below its /tmp, memory of the processes."""
    measured = {}
    for service in lab.status().services:
        if not is_node(service.service):
            continue
        try:
            ended = lab.runtime.execute(service.service, ["python", "-c", INSIDE])
        except LabError:
            continue
        words = ended.output.split()[-3:]
        if ended.exit_code == 0 and len(words) == 3:
            measured[service.service] = (int(words[0]), int(words[1]), int(words[2]))
    return measured


def size(folder: Path) -> int:
    """Count the bytes of all files below a folder, without those that vanish meanwhile."""
    total = 0
    for parent, _, files in os.walk(folder):
        for file in files:
            try:
                total += (Path(parent) / file).lstat().st_size
            except OSError:
                continue
    return total
