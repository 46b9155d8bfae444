"""The faults that last, as files in the lab's folder: another labctl can revert what one that died has left.

`lab.faults.records` has the faults of a job as objects in the store: for charts, and for good.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import psutil

from lab.api.light import restore
from lab.errors import RefusedError
from lab.host.files import write_private
from lab.host.reading import read_json
from lab.runtime.base import LabView, NodeControl
from lab.topology import LabStatus, State

FOLDER = "faults"
"""Folder in the lab's folder, with a file for each fault that lasts."""

LEFT_DOWN = "left_down"
"""Name in the memo of a fault whose node stays down until somebody starts it."""


@dataclass(frozen=True)
class ActiveFault:
    """A fault that lasts, or lasted when labctl died. Times are seconds since the epoch."""

    kind: str
    target: str
    job: str
    at: float
    pid: int
    """The labctl that injected it."""
    started: float
    """Start time of that process: an id alone names nothing."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    memo: Mapping[str, object] = field(default_factory=dict)
    """JSON values that the revert needs."""
    source: str = ""
    """File of a fault of one's own, where it is found again; empty for the lab's own faults."""

    @property
    def name(self) -> str:
        """Name of its file, without the suffix."""
        return f"{int(self.at * 1000)}-{self.kind}-{self.target}"

    @property
    def given_up(self) -> ActiveFault:
        """A copy that no process owns: `labctl heal` may revert it although its labctl goes on."""
        return replace(self, pid=0, started=0.0)

    @property
    def abandoned(self) -> bool:
        """True if its labctl has died or given up."""
        return not process_lives(self.pid, self.started)

    @property
    def left_down(self) -> bool:
        """True if its node was left down on purpose."""
        return bool(self.memo.get(LEFT_DOWN))

    @property
    def outlives_the_lab(self) -> bool:
        """True if it damaged stored objects (`keys` of the memo): they and their copies survive `down`."""
        return bool(self.memo.get("keys"))


class ActiveFaults:
    """Keeps the faults that last in one lab, those of every labctl process."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the lab's."""
        self._folder = folder / FOLDER

    def keep(self, fault: ActiveFault) -> None:
        """Record that this fault lasts, and its memo as it is now. Raises SetupError."""
        write_private(self._folder / f"{fault.name}.json", json.dumps(asdict(fault)))

    def drop(self, fault: ActiveFault) -> None:
        """Remove a fault that has been reverted."""
        with contextlib.suppress(OSError):
            (self._folder / f"{fault.name}.json").unlink(missing_ok=True)

    def started(self, *services: str) -> None:
        """Forget that these were left down: somebody has started them."""
        for fault in self.lasting():
            if fault.left_down and fault.target in services:
                self.drop(fault)

    def clear(self, *, objects: bool = True) -> None:
        """Forget the faults of a lab that is gone; without `objects`, keep those of stored objects."""
        for path in self._files():
            fault = None if objects else _read(path)
            if fault is None or not fault.outlives_the_lab:
                with contextlib.suppress(OSError):
                    path.unlink()

    def lasting(self) -> tuple[ActiveFault, ...]:
        """Return every fault that was begun and not reverted, the oldest first."""
        faults = [fault for path in self._files() if (fault := _read(path)) is not None]
        return tuple(sorted(faults, key=lambda fault: fault.at))

    def left(self) -> tuple[ActiveFault, ...]:
        """Return those whose labctl has died or given up, the oldest first, for `labctl heal`."""
        return tuple(fault for fault in self.lasting() if fault.abandoned)

    def refuse_second(self, target: str) -> None:
        """Refuse a fault on a `target` that has one, also of a labctl that died. Raises RefusedError.

        A target that was left down runs again by now, however it was started.
        """
        self.started(target)
        for fault in self.lasting():
            if fault.target != target:
                continue
            if fault.abandoned:
                raise RefusedError(
                    f"{target} is still under the fault {fault.kind} of a labctl that has ended",
                    "undo it first: labctl heal",
                )
            raise RefusedError(
                f"{target} is under the fault {fault.kind} of another labctl (process {fault.pid})",
                "wait until it has ended",
            )

    def _files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob("[0-9]*.json"))
        except OSError:
            return []


@dataclass(frozen=True)
class LeftUndone:
    """What of a lab is not as it should be, and stays so until somebody does something."""

    faults: tuple[ActiveFault, ...] = ()
    """To heal, the oldest first."""
    down: tuple[str, ...] = ()
    """Services that were left down on purpose, and that nobody has started yet."""
    ended: tuple[str, ...] = ()
    """Services that nobody starts again, and that no fault on record has ended."""


def left_undone(lab: LabView, status: LabStatus) -> LeftUndone:
    """Look through the faults on record; nothing is left where labctl keeps no notes."""
    if not isinstance(lab, NodeControl):
        return LeftUndone()
    lasting = ActiveFaults(lab.folder()).lasting()
    on_purpose = {fault.target for fault in lasting if fault.left_down and fault.abandoned}
    broken = {fault.target for fault in lasting}
    ended = [one.service for one in status.services if one.state in (State.ABSENT, State.EXITED)]
    return LeftUndone(
        tuple(fault for fault in lasting if fault.abandoned and not fault.left_down),
        tuple(service for service in ended if service in on_purpose),
        tuple(service for service in ended if service not in broken),
    )


def refuse_shared(target: str, others: Collection[str]) -> None:
    """Refuse a node that these other jobs would lose, too. Raises RefusedError if there are any."""
    if others:
        message = f"{target} would be lost to {', '.join(others)}, too"
        raise RefusedError(message, "wait until your job has a node of its own, or ask your teacher")


def myself() -> tuple[int, float]:
    """Return the id and start time of this process."""
    return os.getpid(), psutil.Process().create_time()


def process_lives(pid: int, started: float) -> bool:
    """Tell whether the process with this id is the one that started then; the clock may have been set."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _read(path: Path) -> ActiveFault | None:
    """Return the fault in a file, or None for one that is damaged or just being removed."""
    try:
        return restore(ActiveFault, read_json(path))
    except (OSError, ValueError):
        return None
