"""Decisions of a lab of containers before anything starts: ports, images, and the files made of them."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from lab.api import hub
from lab.errors import NotFoundError, SetupError, UnsupportedError
from lab.host.files import ROOT, data_folder, hand_over, make_private, make_public, write_private
from lab.host.secrets import files, load_or_make
from lab.people.registry import FOLDER
from lab.runtime import ports, proxy
from lab.runtime.compose import project, state
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.images.model import ResolvedImages
from lab.runtime.compose.state import ENV_FILE, OVERRIDE_FILE, ComposeState
from lab.services import PORTS, SERVICES, row
from lab.topology import LabSpec
from lab.topology.address import Address

CONTAINER_USER = 1000
"""User of the containers when labctl runs as root."""

PERSON = (65534, 65534)
"""A user who owns nothing that is mounted, as those of people in the hub's container."""


MOUNTED = {
    "lab": ("__init__.py", "probe/raylab_ledger/train.py"),
    "forkserver": ("forkserver/launcher.py",),
    "kueue": ("reading/nodes.py",),
    "compose/prometheus": ("prometheus.yml",),
    "compose/alertmanager": ("alertmanager.yml",),
    "compose/grafana/dashboards": ("lab.json",),
    "compose/jupyter": ("jupyter_server_config.json", "jupyter_server_config.py"),
    "labctl.py": ("",),
}
"""Folder of the checkout that is mounted -> files in it that stand for all the others."""


def reserve(
    spec: LabSpec,
    folder: Path,
    *,
    images: ResolvedImages,
    notes: tuple[str, ...],
    patience: float,
) -> ComposeState:
    """Choose the ports of a lab that is down and save its first state.

    Waits up to `patience` seconds for another labctl that chooses ports. Raises PortTakenError,
    UnsupportedError, SetupError.
    """
    names = _names(spec, images.left_out)
    for name, _ in spec.ports:
        if name not in names:
            raise runs_none(name)
    with ports.reserved(spec, names, folder, state.FILE, _held, patience) as (chosen, said):
        files = project.files(spec, images.files)
        notes = (*said, *images.notes, *notes, *proxy.notes(spec))
        current = ComposeState(spec, chosen, files, images.env, images.left_out, notes)
        state.save(folder, current)
    return current


def _names(spec: LabSpec, left_out: Collection[str]) -> tuple[str, ...]:
    """The ports that a lab without these services publishes."""
    services = (service for service in SERVICES if spec.has(service) and service.name not in left_out)
    return tuple(port.name for service in services for port in service.ports if port.published)


def write_files(
    current: ComposeState, folder: Path, user: tuple[int, int], environment: Mapping[str, str]
) -> None:
    """Make the secrets, the env file, the override, and the folder of data sets, which is mounted.

    Raises SetupError, ServiceError.
    """
    make_public(data_folder(folder.parent))
    secrets = folder / "secrets"
    load_or_make(secrets)
    owned = [folder / FOLDER] if current.spec.classroom else []
    if current.spec.address is not None:
        owned.append(folder / proxy.FOLDER)
        write_proxy(current.spec.address, project.services(current), folder / proxy.FOLDER)
    for path in (*owned, *([folder / hub.FOLDER] if current.spec.hub else [])):
        make_private(path)
    if os.geteuid() == 0:
        hand_over(files(secrets), *user)
        for path in owned:
            hand_over((path, *path.rglob("*")), *user)
    variables = project.env(current, folder, user, environment)
    write_private(folder / ENV_FILE, project.env_text(variables))
    added = project.override(current)
    if added:
        write_private(folder / OVERRIDE_FILE, json.dumps(added, indent=1))
    else:
        (folder / OVERRIDE_FILE).unlink(missing_ok=True)


def write_proxy(address: Address, names: Collection[str], folder: Path) -> None:
    """Write the settings of a class's proxy, which sees this folder as /data, and a certificate of one's own.

    `names` are the lab's services.

    Raises SetupError, NotFoundError.
    """
    make_private(folder)
    if address.certificate:
        for path, name in ((address.certificate, "own.pem"), (address.key, "own.key")):
            try:
                write_private(folder / name, Path(path).read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise NotFoundError(
                    f"cannot read {path}: {error}", "name a file (PEM) with --tls-cert"
                ) from error
        address = dataclasses.replace(address, certificate="/data/own.pem", key="/data/own.key")
    inside = {port.name: f"{name}:{port.usual}" for name in names for port in row(name).ports}
    ways = [(route, inside[route.port]) for route in proxy.routes(inside)]
    health = f"{ports.LOOPBACK}:{PORTS['proxy'].usual}"
    settings = proxy.settings(address, ways, listen=":8443", health=health, storage="/data")
    write_private(folder / proxy.SETTINGS, json.dumps(settings, indent=1))


def container_user(
    engine: DockerEngine, uid: Callable[[], int] = os.geteuid, system: str = sys.platform
) -> tuple[int, int]:
    """User and group that containers run as, so that they can read the secret files.

    Raises UnsupportedError where the engine gives every container users that own nothing of this machine.
    """
    said = engine.ask("info", "--format", "{{json .SecurityOptions}} {{json .OperatingSystem}}")
    if "name=userns" in said:
        raise UnsupportedError(
            "this Docker Engine remaps users (`userns-remap`): no container could read the lab's secrets",
            "use an engine without userns-remap, a rootless one, or --runtime local",
        )
    # Docker Desktop for Linux shows a bind mount's owner as root: its FAQ, and docker/for-mac#6734.
    # The user 0 of a rootless engine's containers is the engine's own user.
    if "name=rootless" in said or (system == "linux" and "Docker Desktop" in said):
        return 0, 0
    return (CONTAINER_USER, CONTAINER_USER) if uid() == 0 else (uid(), os.getegid())


def runs_none(name: str) -> UnsupportedError:
    """The error for a port that containers do not publish."""
    why = f"the image of {name} is not here, so it is left out"
    if not PORTS[name].published:
        why = "only the lab's own containers reach it"
    return UnsupportedError(f"--port {name}: this lab publishes no such port ({why})", "leave it out")


def check_readable(user: tuple[int, int], checkout: Path = ROOT) -> None:
    """Refuse a checkout that containers of that user cannot read where it is mounted. Raises SetupError."""
    if user[0] == 0:  # the user of a rootless engine or of Docker Desktop, who reads it now
        return
    # A mounted folder is reached without those above it.
    inside = {folder: [path for name in names for path in _way(name)] for folder, names in MOUNTED.items()}
    for path in (checkout / folder / name for folder, below in inside.items() for name in below):
        wanted = 0o5 if path.is_dir() else 0o4
        if _may(path, user) & wanted != wanted:
            # Not the whole checkout: compose/secrets stays closed.
            where = shlex.quote(str(checkout))
            raise SetupError(
                f"containers cannot read {path}: they run as user {user[0]}",
                f"`cd {where} && chmod -R a+rX {' '.join(MOUNTED)}` lets them",
            )


def workspace_note(user: tuple[int, int], workspace: Path) -> str:
    """A note where Jupyter cannot write to the workspace, or nothing. Raises SetupError for no folder."""
    workspace = project.folder_path(workspace)
    if not workspace.is_dir():
        raise SetupError(
            f"the workspace {workspace} is not a folder", "make it, or set LAB_WORKSPACE to another"
        )
    uid = user[0]
    if uid == 0 or _may(workspace, user) & 0o2:
        return ""
    return (
        f"workspace: Jupyter cannot write to it (it runs as user {uid}; `chown -R {uid} {workspace}` lets it)"
    )


def _way(name: str) -> list[Path]:
    """A path and the folders that lead to it, `.` included."""
    return [*reversed(Path(name).parents), Path(name)]


def _may(path: Path, user: tuple[int, int]) -> int:
    """The bits of rwx that a user has, who is in no other group. Raises SetupError when it is not there."""
    try:
        info = path.stat()
    except OSError as error:
        raise SetupError(
            f"{path} cannot be read: {error.strerror}",
            "make the checkout complete: `git status` shows what is missing",
        ) from error
    uid, gid = user
    return info.st_mode >> (6 if info.st_uid == uid else 3 if info.st_gid == gid else 0) & 0o7


def _held(folder: Path) -> Collection[int]:
    other = state.load(folder)
    return other.ports.values() if other else ()
