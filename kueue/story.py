"""A simulation in lines for a person: what happened in its order, and what still waits."""

from __future__ import annotations

from kueue.item import PENDING
from kueue.plainly import said, waits, whose
from kueue.simulate import Simulation

SHOWN = 40
"""Lines of a list that a person is shown."""


def story(result: Simulation) -> list[str]:
    """Describe the events in lines, in their order, and then what still waits."""
    changes = result.changes
    lines = []
    for change in changes[:SHOWN]:
        where = f" in {change.cluster_queue}" if change.cluster_queue else ""
        why = f" ({change.reason})" if change.reason and change.reason != change.event else ""
        lines.append(f"{change.at - result.start:10.3f} s  {change.event:<11} {change.workload}{where}{why}")
        if change.event in ("Pending", "Preempted", "Deactivated"):
            lines += [f"{'':14}{text}" for text in (change.message, said(change.message)) if text]
    if len(changes) > SHOWN:
        lines.append(f"and {len(changes) - SHOWN} more events; --json shows all")
    waiting = [item for item in result.engine.items.values() if item.state == PENDING]
    lines.append(f"after {result.end:g} s and {result.engine.cycles} cycles: {len(waiting)} waiting")
    for item in waiting[:SHOWN]:
        reason, message = result.engine.condition(item)
        lines.append(f"  {item.key}: {reason or 'not tried yet'}{f': {message}' if message else ''}")
        if sentence := waits(result.engine, item, whose):
            lines.append(f"{'':14}{sentence}")
    return lines
