"""Limits of what the controller keeps: without them its file would grow with every job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kueue.item import Item
from kueue.reasons import DEACTIVATED
from lab.daemons.queue.model import DONE, INACTIVE, Record

LEAST_SECONDS = 60.0
"""Time for which a job that has ended is kept in any case: what Ray still does for it must be known."""

ACTIVATE_SECONDS = 24 * 3600.0
"""Time for which a job that the queues deactivated, as one beyond its time limit, can be activated again."""

MOST_FINISHED = 2_000
"""Number of jobs that are kept after their end, the newest."""

MOST_EVENTS = 1_000
"""Number of events of one job that are kept, the newest; also of events that belong to none."""


def outlived(records: Iterable[Record], now: float, kept: float | None, most: int) -> list[str]:
    """Keys of jobs that ended more than `kept` seconds ago, or beyond the newest `most`; oldest first.

    One that succeeded is kept no longer than its retry policy says.
    """
    done = sorted(
        (record for record in records if record.phase == DONE),
        key=lambda record: (record.finished_at or 0.0, record.key),
    )
    first = max(0, len(done) - most)
    limits = (LEAST_SECONDS if place < first else _lasts(record, kept) for place, record in enumerate(done))
    return [
        record.key
        for record, limit in zip(done, limits, strict=True)
        if (record.finished_at or 0.0) <= now - limit
    ]


def abandoned(
    records: Iterable[Record], items: Mapping[str, Item], now: float, kept: float | None
) -> list[str]:
    """Keys of jobs that the queues deactivated, and that nobody has activated again in time.

    One that a person has deactivated is none: it waits for that person. `kept` is as for `outlived`.
    """
    limit = ACTIVATE_SECONDS if kept is None else min(kept, ACTIVATE_SECONDS)
    return [
        record.key
        for record in records
        if record.phase == INACTIVE
        and record.attempt is not None
        and items[record.key].reason.startswith(f"{DEACTIVATED}DueTo")
        and (record.attempt.ended_at or 0.0) <= now - limit
    ]


def _lasts(record: Record, kept: float | None) -> float:
    """Seconds for which a job is kept after its end."""
    attempt, policy = record.attempt, record.job.retry
    succeeded = attempt is not None and attempt.ended == "SUCCEEDED"
    limits = (kept, policy.success_ttl if policy is not None and succeeded else None)
    return max(min((limit for limit in limits if limit is not None), default=float("inf")), LEAST_SECONDS)
