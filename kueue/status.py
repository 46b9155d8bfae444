"""A workload of the engine as plain data with its status, from which an engine goes on as before."""

from __future__ import annotations

from dataclasses import replace

from kueue.item import ADMITTED, FINISHED, Item
from kueue.model import Workload


def workload_of(item: Item) -> Workload:
    """The workload with all that was decided about it. `Engine.submit` takes it in as it was."""
    return replace(
        item.workload,
        active=item.active,
        admission=item.admission,
        reserved_at=item.reserved_at,
        admitted_at=item.admitted_at,
        evicted=item.evicted,
        evicted_at=item.evicted_at,
        finished=item.reason if item.state == FINISHED else "",
        reason="" if item.state in (ADMITTED, FINISHED) else item.reason,
        message=item.message,
        requeues=item.requeues,
        requeue_at=item.requeue_at,
        executed=item.executed,
        ready=item.ready,
        unready_since=item.unready_since,
    )
