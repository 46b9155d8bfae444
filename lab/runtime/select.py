"""The choice of the runtime that a lab runs on."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import EngineError, LabError, RefusedError, StateError, UsageError
from lab.host.files import home
from lab.runtime.base import LabView, Runtime
from lab.runtime.statefile import COMPOSE_FILE
from lab.topology import DEFAULT_LAB, check_lab_name

if TYPE_CHECKING:
    from lab.runtime.compose.engine import DockerEngine

CLASS = "class"
"""The kind of a person of a class, who has an address and a token."""

KINDS = ("auto", "local", "compose", CLASS)
"""Kinds that a person may ask for."""

INSIDE = "inside"
"""The kind that JupyterLab's container asks for, in RAYLAB_RUNTIME: the lab it runs in."""

RUNTIME_VARIABLE = "RAYLAB_RUNTIME"
NAME_VARIABLE = "RAYLAB_NAME"

HTTPS_PORT = 443
REGISTRY_SECONDS = 1.0


def lab_name(said: str | None = None) -> str:
    """The lab that is meant: what is said, else $RAYLAB_NAME, else the default. Raises UsageError.

    A name that is empty, as of a shell variable that is not set, never means the default lab.
    """
    if said is not None:
        check_lab_name(said)
        return said
    name = os.environ.get(NAME_VARIABLE, DEFAULT_LAB)
    check_lab_name(name, NAME_VARIABLE)
    return name


@dataclass(frozen=True)
class Choice:
    """A lab as this process has it, and the reason for its runtime."""

    view: LabView
    """A Runtime, but for the lab that this process runs in, and that of a class."""
    kind: str
    why: str


def registry_answers() -> bool:
    """True when images can probably be fetched: a registry takes connections, or a proxy is set."""
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy")):
        return True
    from lab.runtime.compose.images.model import registries

    for host in registries():
        with contextlib.suppress(OSError), socket.create_connection((host, HTTPS_PORT), REGISTRY_SECONDS):
            return True
    return False


def missing_image() -> str:
    """An image that every lab, whatever its GPUs, lacks here, or nothing. Raises LabError."""
    from lab.runtime.compose.images import missing
    from lab.topology import Vendor

    lacking = [missing(vendor) for vendor in (Vendor.NONE, Vendor.NVIDIA, Vendor.AMD)]
    return lacking[0][0].name if all(lacking) else ""


def choose(
    kind: str,
    lab: str,
    *,
    folder: Path | None = None,
    engine: DockerEngine | None = None,
    missing_image: Callable[[], str] = missing_image,
    can_fetch: Callable[[], bool] = registry_answers,
) -> Choice:
    """The runtime `kind` (one of KINDS, or INSIDE) for the lab of this name.

    `auto` takes the runtime on which the lab was started and not taken down since; else containers where they
    can run and reach the store that the lab remembers, else processes.
    `folder` is the lab's. `missing_image` names an image that is not here, `can_fetch` says whether it could
    be had.

    Raises UsageError for an unknown kind, UnsupportedError for one that cannot run here, RefusedError when
    the lab is up on the other runtime, EngineError when it may be and the engine is too busy to tell.
    """
    if kind == INSIDE:
        from lab.runtime.inside import InsideView

        return Choice(InsideView(lab), INSIDE, "this process runs in the lab")
    if kind == CLASS:
        from lab.runtime.classroom import ClassView

        return Choice(ClassView(lab), CLASS, "asked for")
    if kind not in KINDS:
        raise UsageError(f"--runtime {kind}: unknown", f"known: {', '.join(KINDS)}")
    folder = folder or home() / lab
    local_up = _up_locally(folder)
    if kind == "local":
        if (folder / COMPOSE_FILE).exists() and _up_in_containers(folder, lab, engine):
            raise _elsewhere(lab, "compose")
        return Choice(_local(lab, folder), "local", "asked for")
    if kind == "compose":
        if local_up:
            raise _elsewhere(lab, "local")
        return Choice(_compose(lab, folder, engine), "compose", "asked for")
    if local_up:
        return Choice(_local(lab, folder), "local", "auto: the lab is up as plain processes")
    if (folder / COMPOSE_FILE).exists():  # whether or not the engine answers now: it is what can tell
        return Choice(_compose(lab, folder, engine), "compose", "auto: the lab was started in containers")
    problem = _why_no_containers(
        engine, missing_image, lambda: can_fetch() or _up_in_containers(folder, lab, engine)
    )
    if not problem:
        return Choice(_compose(lab, folder, engine), "compose", "auto: Docker can run the lab")
    return Choice(_local(lab, folder), "local", f"auto: {problem}")


def started(lab: str, folder: Path, engine: DockerEngine | None = None) -> Runtime:
    """The runtime on which the lab in this folder runs, if it does; `engine` is that of containers."""
    return _local(lab, folder) if _up_locally(folder) else _compose(lab, folder, engine)


def _local(lab: str, folder: Path) -> Runtime:
    from lab.runtime.local.runtime import LocalRuntime

    return LocalRuntime(lab, folder)


def _compose(lab: str, folder: Path, engine: DockerEngine | None) -> Runtime:
    from lab.runtime.compose.runtime import ComposeRuntime

    return ComposeRuntime(lab, folder, engine=engine)


def _elsewhere(lab: str, kind: str) -> RefusedError:
    return RefusedError(
        f"lab {lab} is up on the {kind} runtime",
        f"leave --runtime out, or `labctl down --lab {lab}` first, or choose another --lab",
    )


def _up_locally(folder: Path) -> bool:
    from lab.runtime.local import processes, state
    from lab.runtime.local.reserve import anything_alive

    if (folder / COMPOSE_FILE).exists() and not (folder / state.FILE).exists():
        return False
    try:
        current = state.load(folder)
    except StateError:
        current = None
    return bool(processes.services_of(folder)) if current is None else anything_alive(current)


def _up_in_containers(folder: Path, lab: str, engine: DockerEngine | None) -> bool:
    try:
        _compose(lab, folder, engine).spec()
    except StateError:  # containers run, whatever became of the file
        return True
    except LabError as error:
        if isinstance(error, EngineError) and error.late:
            raise  # they may run, and nobody can tell
        return False
    return True


def _why_no_containers(
    engine: DockerEngine | None, missing_image: Callable[[], str], all_the_same: Callable[[], bool]
) -> str:
    """The reason why `auto` does not choose containers, or nothing.

    `all_the_same`: choose them although an image is missing.
    """
    from lab.runtime.compose.engine import DockerEngine

    try:
        (engine or DockerEngine()).check()
        missing = missing_image()
    except LabError as error:
        return error.message
    if missing and not all_the_same():
        return f"Docker answers, but the image {missing} is not here and no registry answers"
    return ""
