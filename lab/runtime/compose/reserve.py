"""What a lab of containers decides before anything starts: ports, images, and the files made of them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.errors import ServiceError, UnsupportedError
from lab.home import lock, write_private
from lab.runtime import kept, ports
from lab.runtime.compose import project, state
from lab.runtime.compose.engine import Engine
from lab.runtime.compose.images.model import ResolvedImages
from lab.runtime.compose.state import ENV_FILE, OVERRIDE_FILE, ComposeState
from lab.secrets import hand_over, load_or_make
from lab.topology import DEFAULT_LAB, GRAFANA, LabSpec

CONTAINER_USER = 1000
"""Whom containers run as when labctl runs as root."""


def reserve(
    spec: LabSpec,
    folder: Path,
    *,
    images: ResolvedImages,
    notes: tuple[str, ...],
    patience: float,
) -> ComposeState:
    """Choose the ports of a lab that is down and save its first state.

    Waits up to `patience` seconds for another labctl that chooses
    ports. Raises PortTakenError, UnsupportedError, SetupError.
    """
    wanted = dict(spec.ports)
    names = [name for name in project.PORTS if name not in images.left_out]
    for name in wanted:
        if name not in names:
            raise runs_none(name)
    with lock(folder.parent / "ports.lock", "choosing ports", patience=patience):
        reserved = _reserved_elsewhere(folder)
        chosen: dict[str, int] = {}
        for name in sorted(names, key=lambda name: name not in wanted):
            taken = {*reserved, *chosen.values()}
            usual = spec.name == DEFAULT_LAB
            chosen[name] = ports.choose(name, wanted.get(name), taken, usual=usual)
        files = project.files(spec, images.files)
        notes = (*images.notes, *notes)
        current = ComposeState(spec, chosen, files, images.env, images.left_out, notes)
        state.save(folder, current)
    return current


def write_files(
    current: ComposeState, folder: Path, user: tuple[int, int], environment: Mapping[str, str]
) -> None:
    """Make the secrets, the env file and the override. Raises SetupError, ServiceError."""
    secrets = folder / "secrets"
    load_or_make(secrets)
    if os.geteuid() == 0:
        hand_over(secrets, *user)
    variables = project.env(current, folder, user, environment)
    write_private(folder / ENV_FILE, project.env_text(variables))
    added = project.override(current)
    if added:
        write_private(folder / OVERRIDE_FILE, json.dumps(added, indent=1))
    else:
        (folder / OVERRIDE_FILE).unlink(missing_ok=True)


def container_user(engine: Engine, uid: Callable[[], int] = os.geteuid) -> tuple[int, int]:
    """User and group that containers run as, so that they can read the secret files."""
    if engine.rootless():
        return 0, 0
    return (CONTAINER_USER, CONTAINER_USER) if uid() == 0 else (uid(), os.getegid())


def check_same(current: ComposeState, spec: LabSpec) -> None:
    """Raises RefusedError when a lab that is up is not what `spec` asks for."""
    kept.check_same(current.spec, current.ports, spec, runs_none)


def runs_none(name: str) -> UnsupportedError:
    """The error for a port that containers do not publish."""
    why = {
        "gcs": "only the lab's own containers reach it",
        "client": "only the lab's own containers reach it",
        GRAFANA: "Grafana's image is not here, so it is left out",
    }.get(name, "no service listens on it")
    return UnsupportedError(f"--port {name}: this lab publishes no such port ({why})", "leave it out")


def workspace_note(user: tuple[int, int], workspace: Path = project.WORKSPACE) -> str:
    """What Jupyter's user cannot do in the workspace, or nothing."""
    found = workspace.stat()
    uid, gid = user
    bits = found.st_mode >> (6 if found.st_uid == uid else 3 if found.st_gid == gid else 0)
    if uid == 0 or bits & 0o2:
        return ""
    return (
        f"workspace: Jupyter cannot write to it (it runs as user {uid}; `chown -R {uid} {workspace}` lets it)"
    )


def _reserved_elsewhere(folder: Path) -> set[int]:
    reserved: set[int] = set()
    for path in folder.parent.glob(f"*/{state.FILE}"):
        if path.parent != folder:
            with contextlib.suppress(ServiceError):
                other = state.load(path.parent)
                reserved.update(other.ports.values() if other else ())
    return reserved
