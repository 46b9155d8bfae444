"""Numbers the events of made-up ledgers as the recorder does: each process counts its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lab.evidence.ledger import Event, in_order


class Streams:
    """The processes that write a ledger: the controller of each run, and the ranks of each attempt."""

    def __init__(self) -> None:
        self._written: Counter[str] = Counter()

    def numbered(self, entry: dict[str, Any]) -> dict[str, Any]:
        """A line of a ledger with its stream and number; its controller is that of the job, unless named."""
        run_id, rank = entry.get("run_id") or f"{entry['job']}-{entry['run']}", entry.get("rank")
        stream = f"controller-{run_id}" if rank is None else f"rank{rank}-{run_id}-{entry.get('attempt', 0)}"
        if entry.get("event") == "state_given":
            stream, run_id = "keeper", ""
        self._written[stream] += 1
        return {**entry, "stream": stream, "n": self._written[stream], "run_id": run_id}


def counted(events: Iterable[Event]) -> tuple[Event, ...]:
    """The same for events."""
    streams, numbered = Streams(), []
    for one in in_order(events):
        names = {"job": one.job, "run": one.run, "run_id": one.run_id}
        line = streams.numbered({**names, "rank": one.rank, "attempt": one.attempt, "event": one.event})
        numbered.append(replace(one, stream=line["stream"], number=line["n"], run_id=line["run_id"]))
    return tuple(numbered)
