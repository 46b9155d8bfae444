"""Limits of what the controller keeps: without them its file would grow with every job."""

from __future__ import annotations

from collections.abc import Iterable

from lab.daemons.queue.model import DONE, Record

LEAST_SECONDS = 60.0
"""Time for which a job that has ended is kept in any case: what Ray still does for it must be known."""

MOST_FINISHED = 2_000
"""Number of jobs that are kept after their end, the newest."""

MOST_EVENTS = 1_000
"""Number of events of one job that are kept, the newest; also of events that belong to none."""

MOST_CALLS = 50_000
"""Length of the trace at which it begins anew."""


def outlived(records: Iterable[Record], now: float, kept: float | None, most: int) -> list[str]:
    """Keys of jobs that ended more than `kept` seconds ago, or beyond the newest `most`; oldest first."""
    done = sorted((each.finished_at or 0.0, each.key) for each in records if each.phase == DONE)
    first = max(0, len(done) - most)
    limits = (
        now - (LEAST_SECONDS if place < first else float("inf") if kept is None else max(kept, LEAST_SECONDS))
        for place in range(len(done))
    )
    return [key for (at, key), limit in zip(done, limits, strict=True) if at <= limit]
