"""Leases of GPUs: one lab at a time has a GPU, of all labs of this user here, whatever their RAYLAB_HOME.

A lease is a file per GPU with the lab's name and folder, and locked while a labctl starts the lab. It counts
for as long as that lab runs with the GPU: what a kill or a reboot leaves behind keeps nobody from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import quote, unquote

from lab.api.light import restore
from lab.errors import EngineError, GpuError, LabError, SetupError, StateError
from lab.host.clock import MONOTONIC, Clock
from lab.host.files import make_private, take_lock, user_state
from lab.host.gpus import GpuHolder, held_error
from lab.host.reading import SMALL, read_json
from lab.runtime.base import LabView, NodeControl, Runtime
from lab.topology import GpuPlan

ASK_SECONDS = 2.0
"""Time in which another labctl has looked at a lease; one that holds it for longer starts its lab."""

Devices = Callable[[GpuHolder], "Collection[str] | None"]
"""Tells the GPUs (see GpuAssignment.device) that a lab runs with."""


def devices_of(
    holder: GpuHolder, started: Callable[[str, Path], LabView] | None = None
) -> Collection[str] | None:
    """The GPUs that this lab runs with; None where nobody knows: it may run, on whatever it took.

    That is so without its state, and while the engine of its containers is too busy to answer. Where no
    engine runs no container does. `started` finds the runtime of a lab (default: that of select).
    """
    from lab.runtime import select

    try:
        return (started or select.started)(holder.lab, Path(holder.folder)).spec().gpu.devices
    except StateError:
        return None
    except EngineError as error:
        return None if error.late else ()
    except LabError:
        return ()


def holders(*, devices: Devices = devices_of) -> dict[str, GpuHolder]:
    """Each GPU that a lab of this user has on this machine -> that lab."""
    leases = {unquote(path.stem): path for path in sorted(_folder().glob("*.json"))}
    held = {device: _read(path) for device, path in leases.items()}
    ask = cache(devices)  # each lab once: an engine takes its time to answer
    return {
        device: holder
        for device, holder in held.items()
        if holder is not None and (_is_locked(leases[device]) or _has(ask(holder), device))
    }


def held_by_others(lab: LabView, *, devices: Devices = devices_of) -> dict[str, GpuHolder]:
    """The same without those of this lab, if it has a folder on this machine."""
    held = holders(devices=devices)
    own = str(lab.folder()) if isinstance(lab, NodeControl) else ""
    return {device: holder for device, holder in held.items() if holder.folder != own}


@contextlib.contextmanager
def taken(
    runtime: Runtime, plan: GpuPlan, *, devices: Devices = devices_of, clock: Clock = MONOTONIC
) -> Iterator[None]:
    """Take the plan's GPUs for the lab of this runtime, which is started within the context.

    Raises GpuError that names the lab which has one of them, SetupError where leases cannot be written.
    """
    with contextlib.ExitStack() as held:
        for device in sorted(plan.devices):
            lease = _lease(device, GpuHolder(runtime.lab, str(runtime.folder())), devices, clock)
            held.enter_context(lease)
        yield


def free(folder: Path) -> None:
    """Give back the GPUs of the lab with this folder, which is down. A file that stays counts no more."""
    for path in _folder().glob("*.json"):
        holder = _read(path)
        if holder is not None and holder.folder == str(folder):
            with contextlib.suppress(OSError), take_lock(path):
                path.unlink(missing_ok=True)


def _folder() -> Path:
    """One folder for each machine: homes may be shared by several, and render nodes have the same names."""
    return user_state() / "gpus" / quote(socket.gethostname(), safe="")


@contextlib.contextmanager
def _lease(device: str, lab: GpuHolder, devices: Devices, clock: Clock) -> Iterator[None]:
    path = _folder() / f"{quote(device, safe='')}.json"
    make_private(path.parent)
    with contextlib.ExitStack() as held:
        try:
            file = held.enter_context(take_lock(path, timeout=ASK_SECONDS, clock=clock))
        except BlockingIOError as error:
            holder = _read(path)
            if holder is None:  # it has this moment got it, and writes
                raise GpuError(f"GPU {device} is being taken by another lab", "try again") from error
            if holder != lab:
                raise held_error(device, holder) from error
            yield  # another labctl starts the same lab: both take turns at the lab itself
            return
        except OSError as error:
            raise SetupError(f"cannot write {path}: {error.strerror}", "check its owner") from error
        holder = _read(path)
        if holder is not None and holder != lab and _has(devices(holder), device):
            raise held_error(device, holder)
        _write(file.fileno(), path, lab)
        yield


def _has(devices: Collection[str] | None, device: str) -> bool:
    return devices is None or device in devices


def _write(file: int, path: Path, lab: GpuHolder) -> None:
    """Write the lease in place: a file put over it would not be the one that is locked."""
    try:
        os.truncate(file, 0)
        os.write(file, json.dumps({"lab": lab.lab, "folder": lab.folder}).encode())
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}", "free some space") from error


def _read(path: Path) -> GpuHolder | None:
    """The lab in a lease; None where there is none, or nobody can read it."""
    try:
        return restore(GpuHolder, read_json(path, SMALL))
    except (OSError, ValueError):
        return None


def _is_locked(path: Path) -> bool:
    """True while a labctl starts a lab with it; another that looks, too, does not count."""
    try:
        take_lock(path, shared=True).close()
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
