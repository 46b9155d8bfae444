"""Parses the lines of a ledger to events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeVar, cast

from lab.api.ledger import LEDGER_SCHEMA, Payload, payload_of
from lab.api.lenient import number
from lab.host.reading import parse_json

P = TypeVar("P", bound=Payload)


@dataclass(frozen=True)
class Event:
    """One line of a ledger. `at` is in seconds since the epoch; `rank` is None in the controller's events."""

    event: str
    at: float
    job: str
    run: str
    attempt: int
    rank: int | None
    node_id: str
    fields: Mapping[str, object]
    """Everything else the line holds, as it is; `payload` says what it means."""
    stream: str = ""
    """Name of the process that wrote it, such as `rank0-4711-1f2e3d4c`; empty: events are not counted."""
    number: int = 0
    """Its number in that stream, from 1."""
    run_id: str = ""
    """Ray Train's id of the controller's run: a name may be that of several, one after the other."""

    @cached_property
    def payload(self) -> Payload:
        """What it says, by its kind."""
        return payload_of(self.event, self.fields)


def parse_events(lines: Iterable[str | bytes]) -> tuple[Event, ...]:
    """Return the events of these lines, by time.

    Unknown events are kept; blank, repeated, malformed and half-written lines are left out.
    """
    events: dict[bytes, Event | None] = {}
    for line in lines:
        raw = (line.encode(errors="surrogateescape") if isinstance(line, str) else line).strip()
        if raw and raw not in events:
            events[raw] = _event(raw)
    return in_order(filter(None, events.values()))


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return events by time; those of one process in the order in which it wrote them."""
    return tuple(sorted(events, key=lambda e: (e.at, e.stream, e.number)))


def of_kind(events: Iterable[Event], kind: type[P]) -> Iterator[tuple[Event, P]]:
    """Yield the events of a kind, each with what it says."""
    for event in events:
        if isinstance(event.payload, kind):
            yield event, event.payload


class Kinds:
    """Events by what they say, for who asks for many kinds of them."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._pairs: dict[type[Payload], list[tuple[Event, Payload]]] = {}
        for event in events:
            self._pairs.setdefault(type(event.payload), []).append((event, event.payload))

    def all(self, kind: type[P]) -> Sequence[tuple[Event, P]]:
        """Return what `of_kind` yields, in the order of the events; kind by kind, where one has several."""
        pairs = [self._pairs.get(kind, [])]
        if kind.__subclasses__():
            pairs = [mine for other, mine in self._pairs.items() if issubclass(other, kind)]
        return cast("list[tuple[Event, P]]", pairs[0] if len(pairs) == 1 else [*chain(*pairs)])

    def first(self, kind: type[Payload]) -> float | None:
        """Return the time of the first event of just this kind."""
        return self._pairs[kind][0][0].at if kind in self._pairs else None

    def of_ranks(self, kind: type[P]) -> list[tuple[int, Event, P]]:
        """Return those that ranks wrote, each with its rank."""
        return [(e.rank, e, said) for e, said in self.all(kind) if e.rank is not None]

    def first_of_ranks(self, kind: type[Payload]) -> dict[int, float]:
        """Return rank -> time of its first event of a kind."""
        return {rank: e.at for rank, e, _ in reversed(self.of_ranks(kind))}


def _event(raw: bytes) -> Event | None:
    try:
        entry = parse_json(raw)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.pop("schema", LEDGER_SCHEMA) != LEDGER_SCHEMA:
        return None
    name, at = entry.pop("event", None), number(entry.pop("at", None))
    job, run, node = entry.pop("job", ""), entry.pop("run", ""), entry.pop("node_id", "")
    attempt, rank = entry.pop("attempt", 0), entry.pop("rank", None)
    stream, count, run_id = entry.pop("stream", ""), entry.pop("n", 0), entry.pop("run_id", "")
    texts = all(isinstance(text, str) for text in (name, job, run, node, stream, run_id))
    counts = (attempt, 0 if rank is None else rank, count)
    numbers = all(isinstance(n, int) and not isinstance(n, bool) for n in counts)
    if not (texts and numbers and name) or at is None:
        return None
    return Event(name, float(at), job, run, attempt, rank, node, entry, stream, count, run_id)
