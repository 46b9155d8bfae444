"""Decisions of a lab before anything starts: its ports and its S3 server, written to the state file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

import psutil

from lab.cluster import patches
from lab.errors import UnsupportedError
from lab.host.secrets import load_or_make
from lab.runtime import ports, proxy
from lab.runtime.local import hub, processes, prometheus, state
from lab.runtime.local.layout import Layout
from lab.runtime.local.services import FORKS, startable
from lab.runtime.local.state import LabState
from lab.services import PROMETHEUS, SERVICES, ports_of
from lab.topology import LabSpec


def anything_alive(current: LabState) -> bool:
    """True when a service of this state runs; a fork server alone is none."""
    leaders = (identity for name, identity in current.leaders.items() if name != FORKS)
    return not current.stale and any(processes.find(identity) for identity in leaders)


def reserve(spec: LabSpec, layout: Layout, *, patience: float) -> LabState:
    """Choose ports and the S3 server of a lab that is down, make its secrets, and save its first state.

    Waits up to `patience` seconds for another labctl that chooses ports. Raises PortTakenError, PatchError,
    UnsupportedError, SetupError, ServiceError.
    """
    if spec.plain_names:
        raise UnsupportedError(
            "--plain-names: a lab of plain processes has no containers",
            "leave it out, or use --runtime compose",
        )
    if spec.gcs_ft and not find_redis():
        raise UnsupportedError(
            "--gcs-ft needs Redis, and there is no `redis-server` or `valkey-server` on PATH",
            "install it (on Debian: sudo apt-get install --no-install-recommends redis-server), or "
            "use --runtime compose, whose image has it",
        )
    spec = proxy.placed(spec)
    absent = prometheus.absent()
    names = _names(spec, absent)
    for name, _ in spec.ports:
        if name not in names:
            raise runs_none(name)
    with ports.reserved(spec, names, layout.folder, state.FILE, _held, patience) as (chosen, said):
        notes = list(said)
        store, note = _store(layout)
        notes += note
        lacking = {program: f"{program}: left out (no `{program}` on PATH)" for program in absent.values()}
        notes += lacking.values()
        notes += _unfit(spec)
        notes += proxy.notes(spec)
        notes += [hub.NOTE] if spec.hub else []
        none = (service.name for service in SERVICES if not startable(service))
        notes += (f"{name}: left out (it runs in containers only)" for name in none)
        load_or_make(layout.secrets)
        begun, scratch = (psutil.boot_time(), processes.boot_id()), str(layout.scratch)
        current = LabState(spec, chosen, *begun, store, notes=tuple(notes), scratch=scratch)
        state.save(layout.folder, current)
    return current


def _store(layout: Layout) -> tuple[str, list[str]]:
    """The S3 server, as in the state file, and what a person should know of it."""
    moto_has_objects = any(layout.objects("moto").glob("*"))
    if shutil.which("minio") and not moto_has_objects:
        return "minio", []
    why = "it holds this lab's objects" if shutil.which("minio") else "no `minio` on PATH"
    return "moto", [f"S3 server: moto, standing in for MinIO ({why}); objects are kept on disk"]


def _unfit(spec: LabSpec) -> list[str]:
    """Notes of the patches that do not fit the installed Ray. Raises PatchError, UsageError."""
    off, problems = patches.switched_off(spec, os.environ).split(","), patches.unfit()
    kept = {"ray_start", *(("redis_password",) if spec.gcs_ft else ())}
    patches.check_closed(problems, kept.difference(off))
    return [
        f"patch {name}: off, it does not fit ({why})" for name, why in problems.items() if name not in off
    ]


def _names(spec: LabSpec, absent: Collection[str]) -> tuple[str, ...]:
    """The ports of a lab without these services."""
    wanted = [
        service
        for service in SERVICES
        if startable(service) and spec.has(service) and service.name not in absent
    ]
    return ports_of(wanted, scraped=PROMETHEUS not in absent)


def find_redis() -> str:
    """The path of a Redis server on this machine; empty when there is none."""
    return shutil.which("redis-server") or shutil.which("valkey-server") or ""


def runs_none(name: str) -> UnsupportedError:
    """The error for a port of a service that this lab does not run."""
    program = prometheus.absent().get(name)
    why = f"no `{program}` on PATH" if program else "it runs in containers only"
    return UnsupportedError(f"--port {name}: this lab runs no {name} ({why})", "leave it out")


def _held(folder: Path) -> Collection[int]:
    """The ports of the lab with this folder, while it runs or starts."""
    other = state.load(folder)
    if other is None or other.stale or (other.leaders and not anything_alive(other)):
        return ()
    return other.ports.values()
