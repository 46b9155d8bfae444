"""Finds attempts that a job lost although no fault is on record: their cause is unknown to labctl."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import inf

from lab.evidence.ledger import History, Run, RunAttempt
from lab.faults.records import FAULTS_PREFIX, LoggedFault, read_fault
from lab.store.base import Store


def recorded_faults(store: Store, job: str) -> tuple[LoggedFault, ...]:
    """The faults on record that hit this job, the oldest first. Raises StoreError."""
    keys = [e.key for e in store.list(f"{FAULTS_PREFIX}/{job}/") if e.key.endswith(".json")]
    faults = (read_fault(store.get(key)) for key in keys)
    return tuple(sorted((fault for fault in faults if fault is not None), key=lambda fault: fault.at))


def lost_without_fault(history: History, faults: Iterable[LoggedFault]) -> tuple[str, ...]:
    """A sentence for each attempt that another one had to follow, and during which no fault lasted."""
    known = tuple(faults)
    return tuple(
        _sentence(history, run, attempt)
        for run in history.runs
        for attempt, following in pairwise(run.attempts)
        if attempt in run.lost and not any(_lasted(fault, attempt, following) for fault in known)
    )


def _lasted(fault: LoggedFault, attempt: RunAttempt, following: RunAttempt) -> bool:
    began = _first(-inf, attempt.scheduled_at, attempt.started_at)
    over = _first(
        inf, attempt.failure_detected_at, attempt.ended_at, following.scheduled_at, following.started_at
    )
    return fault.at <= over and (fault.reverted_at is None or fault.reverted_at >= began)


def _first(otherwise: float, *times: float | None) -> float:
    return next((at for at in times if at is not None), otherwise)


def _sentence(history: History, run: Run, attempt: RunAttempt) -> str:
    where = f" of run {run.name}" if len(history.runs) > 1 else ""
    reached = f" after {run.progress_key} {attempt.furthest}" if attempt.furthest is not None else ""
    return f"attempt {attempt.number}{where} was lost{reached} without a recorded fault"
