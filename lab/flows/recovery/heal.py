"""Reverts faults left active by a labctl process that died."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError, NotFoundError, StoreError
from lab.faults import Fault, Scene, find_fault
from lab.faults.records import FaultLog, LoggedFault
from lab.host.clock import WALL, Clock
from lab.lab import Lab
from lab.runtime.active_faults import ActiveFault, ActiveFaults
from lab.runtime.base import OnProgress, ignore_progress
from lab.store import Store


@dataclass(frozen=True)
class Healed:
    """One fault that was left behind, and the outcome of its revert. `at` is seconds since the epoch."""

    kind: str
    target: str
    job: str
    at: float
    problem: str = ""
    """Reason why it could not be reverted; a retry is possible then."""


def heal(
    lab: Lab,
    on_begin: Callable[[ActiveFault], None] = lambda _: None,
    on_progress: OnProgress = ignore_progress,
    *,
    clock: Clock = WALL,
) -> tuple[Healed, ...]:
    """Revert every fault that was left behind, the newest first. Faults of a living labctl are left alone,
    unless it has given up reverting them.

    In a lab that is down nothing is left to revert but damage to stored objects: that has to wait until it is
    up. Raises nothing that the revert of one fault raises: it is a problem of that one.
    """
    journal = ActiveFaults(lab.control.folder())
    up = lab.status().up
    done = []
    for entry in reversed(journal.left()):
        if not up and not entry.outlives_the_lab:
            journal.drop(entry)
            continue
        problem = f"lab {lab.name} is down, start it first: `labctl up`"
        if up:
            on_begin(entry)
            try:
                _revert(lab, entry, on_progress)
                journal.drop(entry)
                problem = ""
            except LabError as error:
                problem = error.message
            else:
                _record(lab.store, entry, clock())
        done.append(Healed(entry.kind, entry.target, entry.job, entry.at, problem))
    return tuple(done)


def _record(store: Store, entry: ActiveFault, at: float) -> None:
    """Put it on record that the fault was reverted, beside what was known when it began."""
    log = FaultLog(store, entry.job, LoggedFault(entry.kind, entry.target, entry.at))
    with contextlib.suppress(StoreError):
        log.take_up()
    log.record(at)


def _revert(lab: Lab, entry: ActiveFault, on_progress: OnProgress) -> None:
    _fault_of(entry).revert(
        Scene(
            runtime=lab.control,
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
