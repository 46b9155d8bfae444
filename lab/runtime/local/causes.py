"""Causes of a failed start, from how the service ended, who holds its ports, and its output."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import psutil

from lab.cluster import patches
from lab.errors import LabError, PortTakenError, ServiceError
from lab.host import listening
from lab.runtime import ports
from lab.runtime.local import processes
from lab.runtime.logtail import listing
from lab.services import PROXY, ports_of, row
from lab.topology.address import Address

_MISSING = re.compile(r"No module named '?([\w.]+)'?")
_FULL = "No space left on device"


def ended(
    service: str, code: int | None, lines: Sequence[str], log: Path, numbers: Mapping[str, int]
) -> LabError:
    """The error for a service that ended while it was starting, and of which nothing runs any more.

    `code` is its exit code, negative for a signal, None when unknown; `numbers` are the lab's ports.
    """
    log_hint = f"the whole log: {log}"
    for name in ports_of([row(service)], scraped=False):
        if name in numbers and not ports.is_free(numbers[name]):
            return ports.taken(service, name, numbers[name])
    unfit = patches.said_unfit(lines)
    if unfit is not None:
        return unfit
    text = "\n".join(lines)
    what = f"{service} ended while starting"
    missing = _MISSING.search(text)
    if _FULL in text:
        what += ": no space is left on the disk"
        log_hint = f"free some space; {log_hint}"
    elif missing:
        what += f": the Python package {missing[1].partition('.')[0]} is missing"
        log_hint = f"`labctl doctor` says what is installed; {log_hint}"
    elif code == -signal.SIGKILL:
        what += ": it was killed (SIGKILL), as the kernel does when memory runs out"
        log_hint = f"free some memory, see `labctl doctor`; {log_hint}"
    elif code is not None and code < 0:
        what += f": it was ended by {_name(-code)}"
    elif code:
        what += f" with exit code {code}"
    return ServiceError(f"{what}. {listing(lines)}", log_hint)


def shut_out(service: str, own: Collection[int], numbers: Mapping[str, int]) -> PortTakenError | None:
    """The error for a service that runs while only others than its `own` processes listen on a port of it.

    Ray's head goes on without its dashboard then.
    """
    for name in ports_of([row(service)], scraped=False):
        listeners = ports.listeners(numbers[name]) if name in numbers else ()
        if listeners and not set(listeners) & set(own):
            return ports.taken(service, name, numbers[name])
    return None


def exposed(folder: Path, address: Address | None = None) -> ServiceError | None:
    """The error when the network reaches a process of the lab with this folder, as far as one may see.

    It may reach the proxy at the `address` of a class.
    """
    allowed = (PROXY, address.listen, address.port) if address else None
    try:
        beyond = [socket for socket in listening.listening() if not socket.on_loopback]
    except psutil.Error:
        return None
    for socket in beyond:
        service = processes.service_of(socket.pid, folder) if socket.pid is not None else ""
        if service and (service, socket.address, socket.port) != allowed:
            return listening.reached(service, socket.address, socket.port)
    return None


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
