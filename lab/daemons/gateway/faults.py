"""Faults under a person's job: injected by labctl itself, which writes the receipt, too."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lab.api.people import FAULTS, NOT_YET, FaultOrder, FaultSeen
from lab.cluster.allocation import Holding, holdings, read
from lab.cluster.api import RayApi
from lab.errors import NotFoundError, RefusedError, UsageError
from lab.host import command
from lab.host.files import HOME_VARIABLE, ROOT, make_private
from lab.host.reading import read_text
from lab.runtime.active_faults import FOLDER, ActiveFaults, refuse_shared
from lab.services import is_worker

LONGEST = "10m"
"""Longest wait for the first checkpoint, and again for training to go on."""

INHERITED = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "TMPDIR")

SAID, PRINTED = "asked.log", "asked.json"
"""Files of what the labctl says that was started last: it goes on when the gateway has ended."""

MOST_LINES = 200
"""Lines of it that are shown, the latest."""


class Running(Protocol):
    """A labctl that was started."""

    def poll(self) -> int | None:
        """Its exit code; None while it goes on."""


Start = Callable[[Sequence[str]], Running]
"""Starts labctl with these arguments."""


@dataclass(frozen=True)
class UnderWay:
    """A fault that was asked for."""

    job: str
    node: str
    labctl: Running


class Breaker:
    """Injects one fault at a time."""

    def __init__(self, held: Callable[[], tuple[Holding, ...]], start: Start, folder: Path) -> None:
        """`held` says what jobs hold where, `start` starts labctl; `folder` is the lab's."""
        self._held, self._start, self._folder = held, start, folder
        self._latest: UnderWay | None = None

    async def kill(self, job: str, may_hit: Callable[[str], bool], order: FaultOrder) -> str:
        """Break a node on which a job of Ray's trains; returns its service. RefusedError, ClusterError.

        `may_hit` tells if another job may lose something by that; one without a name is anybody's.
        """
        argv = arguments(order)
        held = await asyncio.to_thread(self._held)
        self._refuse_second()
        node = aim(job, held, may_hit, order.target)
        if not may_hit(""):  # others may have come to the node when the moment for it has come
            argv = (*argv, "--spare-others")
        argv = ("fault-inject", node, "--job", job, "--timeout", LONGEST, "--json", *argv)
        self._latest = UnderWay(job, node, self._start(argv))
        return node

    def seen(self, attempts: Collection[str]) -> FaultSeen:
        """How far the fault is under the job of which these are Ray's jobs. Raises NotFoundError."""
        latest = self._latest
        if latest is None or latest.job not in attempts:
            raise NotFoundError("no fault of this job is known", "its receipt is on the class's page")
        code = latest.labctl.poll()
        lines = self._read(SAID).splitlines()[-MOST_LINES:]
        return FaultSeen(latest.node, tuple(lines), code, "" if code is None else self._read(PRINTED))

    def left_by(self, node: str) -> str:
        """The job for whose sake a node was left down. Raises RefusedError where it was not."""
        for fault in ActiveFaults(self._folder).left():
            if fault.left_down and fault.target == node:
                return fault.job
        raise RefusedError(f"{node} was not left down by a fault", "the teacher restarts other services")

    def restart(self, node: str) -> None:
        """Begin to start a node again that was left down. Raises RefusedError while a fault is under way."""
        self._refuse_second()
        self._latest = UnderWay("", node, self._start(("restart", node)))

    def _refuse_second(self) -> None:
        if self._latest is not None and self._latest.labctl.poll() is None:
            raise RefusedError(
                f"a fault is under way on {self._latest.node}", "its receipt comes once training has gone on"
            )

    def _read(self, name: str) -> str:
        try:
            return read_text(self._folder / FOLDER / name)
        except (OSError, ValueError):
            return ""


def arguments(order: FaultOrder) -> tuple[str, ...]:
    """The options of `labctl fault-inject` for an order. Raises UsageError."""
    if order.kind not in FAULTS:
        raise UsageError(f"in a class no fault {order.kind!r} is injected", f"there are: {', '.join(FAULTS)}")
    options = {"fault": order.kind, "after-epoch": order.after_epoch}
    times = {"after": order.after_seconds, "for": order.duration}
    return (
        *(f"--{name}={value}" for name, value in options.items() if value is not None),
        *(f"--{name}={value:g}s" for name, value in times.items() if value is not None),
        *(("--leave-down",) if order.leave_down else ()),
    )


def aim(job: str, held: Iterable[Holding], may_hit: Callable[[str], bool], target: str = "") -> str:
    """The worker node of a job that runs the fewest others, or `target`.

    Raises RefusedError where one must not be hit.
    """
    on: dict[str, set[str]] = {}
    for holding in held:
        on.setdefault(holding.service, set()).add(holding.job)
    others = {node: sorted(jobs - {job}) for node, jobs in on.items() if job in jobs and is_worker(node)}
    if not others:
        raise RefusedError(f"{job} holds nothing of a node", NOT_YET)
    if target and target not in others:
        raise RefusedError(f"{job} runs nothing on {target[:80]}", f"it runs on: {', '.join(sorted(others))}")
    spared = {node: [other for other in jobs if not may_hit(other)] for node, jobs in others.items()}
    node = target or min(others, key=lambda name: (len(spared[name]), len(others[name]), name))
    refuse_shared(node, spared[node])
    return node


def breaker(environ: Mapping[str, str], ray: tuple[str, str]) -> Breaker | None:
    """That of a lab of processes, which says its home and its name; containers are out of reach."""
    home, name = environ.get(HOME_VARIABLE, ""), environ.get("RAYLAB_NAME", "")
    if not home or not name:
        return None
    kept = {variable: value for variable, value in environ.items() if variable in INHERITED}
    own = {HOME_VARIABLE: home, "RAYLAB_NAME": name, "RAYLAB_RUNTIME": "local", "LABCTL_NO_VENV": "1"}
    labctl = (sys.executable, str(Path(ROOT) / "labctl.py"))
    folder = Path(home) / name

    def start(argv: Sequence[str]) -> subprocess.Popen[bytes]:
        files = make_private(folder / FOLDER)
        with open(files / SAID, "wb") as said, open(files / PRINTED, "wb") as printed:
            return command.start(
                (*labctl, *argv), env={**kept, **own}, cwd=home, stdin=subprocess.DEVNULL, stdout=printed,
                stderr=said, start_new_session=True,
            )  # fmt: skip

    return Breaker(lambda: holdings(read(RayApi(*ray))), start, folder)
