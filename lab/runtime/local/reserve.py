"""What a lab decides before anything starts: its ports and its S3 server, written to the state file."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import psutil

from lab.errors import StateError, UnsupportedError
from lab.host.files import lock
from lab.host.secrets import load_or_make
from lab.runtime import ports, statefile
from lab.runtime.local import processes, state
from lab.runtime.local.services import FORKS, Layout
from lab.runtime.local.state import LabState
from lab.topology import DEFAULT_LAB, LabSpec


def anything_alive(current: LabState) -> bool:
    """Whether a service of this state runs; a fork server alone is none."""
    leaders = (identity for name, identity in current.leaders.items() if name != FORKS)
    return not current.stale and any(processes.find(identity) for identity in leaders)


def reserve(spec: LabSpec, layout: Layout, *, patience: float) -> LabState:
    """Choose ports and the S3 server of a lab that is down, make its secrets, and save its first state.

    Waits up to `patience` seconds for another labctl that chooses ports. Raises PortTakenError,
    UnsupportedError, SetupError, ServiceError.
    """
    if spec.gcs_ft and not find_redis():
        raise UnsupportedError(
            "--gcs-ft needs Redis, and there is no `redis-server` or `valkey-server` on PATH",
            "install it (on Debian: sudo apt-get install --no-install-recommends redis-server), or "
            "use --runtime compose, whose image has it",
        )
    wanted = dict(spec.ports)
    prometheus = shutil.which("prometheus")
    names = ["dashboard", "gcs", "client", "s3", "jupyter"]
    names += ["redis"] if spec.gcs_ft else []
    names += ["prometheus", "metrics", "autoscaler-metrics", "dashboard-metrics"] if prometheus else []
    for name in wanted:
        if name not in names:
            raise _runs_none(name)
    with lock(layout.folder.parent / "ports.lock", "choosing ports", patience=patience):
        reserved = _reserved_elsewhere(layout.folder)
        # Only one lab of a host can have the usual ports. The others do not even try: labs that are
        # started at the same time, perhaps below different homes, must not race for them.
        usual = spec.name == DEFAULT_LAB
        chosen, said = ports.assign(names, wanted, reserved, layout.folder, usual=usual)
        notes = list(said)
        moto_has_objects = any(layout.objects("moto").glob("*"))
        store = "minio" if shutil.which("minio") and not moto_has_objects else "moto"
        if store == "moto":
            why = "it holds this lab's objects" if shutil.which("minio") else "no `minio` on PATH"
            notes.append(f"S3 server: moto, standing in for MinIO ({why}); objects are kept on disk")
        if not prometheus:
            notes.append("prometheus: left out (no `prometheus` on PATH)")
        notes.append("grafana: left out (the local runtime has none)")
        load_or_make(layout.secrets)
        current = LabState(spec, chosen, psutil.boot_time(), processes.boot_id(), store, notes=tuple(notes))
        state.save(layout.folder, current)
    return current


def find_redis() -> str:
    """The path of a Redis server on this machine; empty when there is none."""
    return shutil.which("redis-server") or shutil.which("valkey-server") or ""


def check_same(current: LabState, spec: LabSpec) -> None:
    """Raises RefusedError when a lab that is up is not what `spec` asks for."""
    statefile.check_same(current.spec, current.ports, spec, _runs_none)


def _runs_none(name: str) -> UnsupportedError:
    why = "no `prometheus` on PATH" if name == "prometheus" else "the local runtime has none"
    return UnsupportedError(f"--port {name}: this lab runs no {name} ({why})", "leave it out")


def _reserved_elsewhere(folder: Path) -> set[int]:
    reserved: set[int] = set()
    for path in folder.parent.glob(f"*/{state.FILE}"):
        if path.parent != folder:
            with contextlib.suppress(StateError):
                other = state.load(path.parent)
                starting = other is not None and not other.leaders and not other.stale
                if other is not None and (starting or anything_alive(other)):
                    reserved.update(other.ports.values())
    return reserved
