"""Undoes the faults that a labctl has left behind which died in the middle of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, NotFoundError, StoreError, UnsupportedError
from lab.faults import Fault, Scene, find_fault
from lab.faults.active import ActiveFault, ActiveFaults
from lab.faults.records import FaultLog, LoggedFault
from lab.lab import Lab
from lab.runtime.base import OnProgress, ignore_progress


@dataclass(frozen=True)
class Healed:
    """One fault that was left behind, and whether it could be undone. `at` is seconds since the epoch."""

    kind: str
    target: str
    job: str
    at: float
    problem: str = ""
    """Why it could not be undone; it can be tried again then."""


def left_behind(lab: Lab) -> tuple[ActiveFault, ...]:
    """The faults to heal, the oldest first; none where labctl keeps no notes."""
    try:
        return ActiveFaults(lab.runtime.folder()).left()
    except UnsupportedError:
        return ()


def heal(
    lab: Lab,
    on_begin: Callable[[ActiveFault], None] = lambda _: None,
    on_progress: OnProgress = ignore_progress,
    *,
    clock: Callable[[], float] = time.time,
) -> tuple[Healed, ...]:
    """Undo every fault that was left behind, the newest first. Faults of a living labctl are left alone,
    unless it has given up undoing them.

    In a lab that is down nothing is left to undo but damage to stored objects: that has to wait until it is
    up. Raises nothing that one fault's revert raises: it is told.
    """
    journal = ActiveFaults(lab.runtime.folder())
    up = lab.status().up
    done = []
    for entry in reversed(journal.left()):
        if not up and not entry.outlives_the_lab:
            journal.drop(entry)
            continue
        problem = f"lab {lab.name} is down, start it first: `labctl up`"
        if up:
            on_begin(entry)
            problem = _mend(lab, journal, entry, on_progress, clock)
        done.append(Healed(entry.kind, entry.target, entry.job, entry.at, problem))
    return tuple(done)


def _mend(
    lab: Lab, journal: ActiveFaults, entry: ActiveFault, on_progress: OnProgress, clock: Callable[[], float]
) -> str:
    """Undo one fault; returns why it could not be undone, or nothing."""
    try:
        _undo(lab, entry, on_progress)
        journal.drop(entry)
        _record(lab, entry, clock())
    except LabError as error:
        return error.message
    return ""


def _undo(lab: Lab, entry: ActiveFault, on_progress: OnProgress) -> None:
    fault = _fault_of(entry)
    fault.revert(
        Scene(
            runtime=lab.runtime,
            target=entry.target,
            job=entry.job,
            parameters=entry.parameters,
            store=lab.store,
            memo=dict(entry.memo),
            on_progress=on_progress,
        )
    )


def _fault_of(entry: ActiveFault) -> Fault:
    """Find the fault again, by its name. Raises NotFoundError that says where one of one's own came from."""
    try:
        return find_fault(entry.kind)
    except LabError as error:
        if not entry.source:
            raise
        if Path(entry.source).exists():
            raise NotFoundError(f"{error.message}; it was loaded from {entry.source}") from error
        raise NotFoundError(f"the file of this fault is gone, {entry.source}: put it back") from error


def _record(lab: Lab, entry: ActiveFault, at: float) -> None:
    """In the object store too, for the charts; that it could not be does not matter here."""
    with contextlib.suppress(StoreError):
        log = FaultLog(lab.store, entry.job, LoggedFault(entry.kind, entry.target, entry.at))
        log.record(at)
