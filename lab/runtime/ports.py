"""Ports on loopback: free ones, the holder of one that is not, those that a lab had when it was up last."""

from __future__ import annotations

import contextlib
import errno
import json
import random
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path

import psutil

from lab.errors import PortTakenError, StateError
from lab.host.files import lock, write_private
from lab.host.listening import listening
from lab.host.reading import SMALL, read_json
from lab.services import PORTS
from lab.topology import DEFAULT_LAB, LabSpec

LOOPBACK = "127.0.0.1"

OTHERS = range(25_000, 32_768)
"""Ports that a lab gets in place of the usual ones. No process that starts meanwhile is given one of them:
Linux hands out ports from 32768 on, Ray's workers listen on those from 10002 to 19999, and the servers of
Ray's clients on those from 23000 to 24000."""

AT_RANDOM = 100
"""Number of them that are tried in no order, so that labs that start at once seldom choose the same one.
After that each is tried in turn."""

FILE = "ports.json"
"""File in the lab's folder: the ports that it had last, on whatever runtime. It outlives `down`."""

LOCK = "ports.lock"
"""File beside the labs' folders: one lab after the other chooses its ports."""


def is_free(port: int) -> bool:
    """True when nobody listens on this port, on any address."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno in (errno.EADDRINUSE, errno.EACCES):
                    return False  # anything else: this machine has no such address to listen on
    return True


def listeners(port: int) -> tuple[int, ...]:
    """Ids of the processes that listen on this port, on whatever address, as far as this user may see."""
    with contextlib.suppress(psutil.Error, RuntimeError):
        return tuple(dict.fromkeys(one.pid for one in listening() if one.port == port and one.pid))
    return ()


def holder(port: int) -> str:
    """The process that listens on this port, as far as this user may see: `name (process id)`."""
    for pid in listeners(port):
        with contextlib.suppress(psutil.Error):
            return f"{psutil.Process(pid).name()} (process {pid})"
    return "another process, whose owner this user may not see"


def choose(name: str, wanted: int | None, reserved: Collection[int], *, usual: bool = True) -> int:
    """A port for `name`: the one wanted, else the usual one (if `usual`), else any free one.

    Raises PortTakenError, naming the holder, when the one wanted is in use or reserved.
    """
    if wanted is not None:
        if wanted in reserved:
            raise PortTakenError(
                f"port {wanted} for {name} is reserved, for another port of this lab or by another lab",
                f"choose another one with --port {name}=NUMBER, or leave it out to get a free one",
            )
        if not is_free(wanted):
            raise PortTakenError(
                f"port {wanted} for {name} is in use by {holder(wanted)}",
                f"end it, choose another one with --port {name}=NUMBER, or leave it out to get a free one",
            )
        return wanted
    known = PORTS[name].usual
    if usual and known not in reserved and is_free(known):
        return known
    for port in chain(random.SystemRandom().sample(OTHERS, AT_RANDOM), OTHERS):
        if port not in reserved and is_free(port):
            return port
    raise PortTakenError(
        f"no port from {OTHERS.start} to {OTHERS.stop - 1} is free for {name}",
        f"choose one with --port {name}=NUMBER",
    )


def taken(service: str, name: str, number: int) -> PortTakenError:
    """The error for a service that somebody else's program keeps from listening on a port of its own."""
    return PortTakenError(
        f"{service} cannot serve: its port {number} ({name}) was taken meanwhile by {holder(number)}",
        "end that, or `labctl down` and `labctl up` to choose another port",
    )


@contextlib.contextmanager
def reserved(
    spec: LabSpec,
    names: Collection[str],
    folder: Path,
    state_file: str,
    held: Callable[[Path], Collection[int]],
    patience: float,
) -> Iterator[tuple[dict[str, int], tuple[str, ...]]]:
    """Choose the ports of a lab that starts, while no other labctl does; yields what `assign` gives.

    They are the lab's once its state is saved, within the context. `held` gives the ports of another lab from
    its folder.

    Raises PortTakenError, SetupError, and RefusedError after `patience` seconds.
    """
    with lock(folder.parent / LOCK, "choosing ports", patience=patience):
        others = set[int]()
        for path in folder.parent.glob(f"*/{state_file}"):
            if path.parent != folder:
                with contextlib.suppress(StateError):
                    others.update(held(path.parent))
        # Only one lab of a host can have the usual ports. The others do not even try: labs that are
        # started at the same time, perhaps below different homes, must not race for them.
        yield assign(names, dict(spec.ports), others, folder, usual=spec.name == DEFAULT_LAB)


def assign(
    names: Collection[str],
    wanted: Mapping[str, int],
    reserved: Collection[int],
    folder: Path,
    *,
    usual: bool = True,
) -> tuple[dict[str, int], tuple[str, ...]]:
    """The ports of a lab that starts, and notes about them; they are kept in its folder.

    Each is the one that is `wanted`, else the one that the lab had when it was up last, else what `choose`
    gives. Raises what `choose` raises, and SetupError.
    """
    before = had(folder)
    chosen: dict[str, int] = {}
    notes = []
    for name in sorted(names, key=lambda name: (name not in wanted, name not in before)):
        taken, old = {*reserved, *chosen.values()}, before.get(name)
        if name in wanted or old is None:
            chosen[name] = choose(name, wanted.get(name), taken, usual=usual)
        elif old not in taken and is_free(old):
            chosen[name] = old
        else:
            who = "another port of this lab or another lab" if old in taken else holder(old)
            chosen[name] = choose(name, None, taken, usual=usual)
            notes.append(f"port of {name}: {chosen[name]}, not {old} as before, which is taken by {who}")
    write_private(folder / FILE, json.dumps({**before, **chosen}, indent=1))
    return chosen, tuple(notes)


def had(folder: Path) -> dict[str, int]:
    """The ports that the lab with this folder had last; none where that is not known."""
    try:
        numbers = read_json(folder / FILE, SMALL)
        return {name: int(port) for name, port in numbers.items() if name in PORTS and 0 < int(port) < 65536}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
