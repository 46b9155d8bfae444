"""Steps of a training that goes on without a lost rank, or of a job that asks for it, as recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from lab.api.ledger import Healed, StateHashed, StepsTaken
from lab.evidence.ledger.events import Event

MOST_STEPS = 100_000
"""Most steps that one event can hold; a line with more is skipped."""

Process = tuple[int, str, int]
"""Attempt, node and process id: no two processes of a run have the same."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps that one process committed together with the same number of ranks."""

    rank: int
    first: int
    times: tuple[float, ...]
    """Seconds since the epoch at which each was committed."""
    ranks: int
    """Number of ranks that took part, this one included unless it was being healed."""
    process: Process = (0, "", 0)

    @property
    def last(self) -> int:
        """Number of the last step."""
        return self.first + len(self.times) - 1


@dataclass(frozen=True)
class Healing:
    """A rank was given the state of its neighbours as they were after `step`."""

    at: float
    rank: int
    process: Process
    step: int
    source: str
    """Name of the neighbour, such as `rank0`; empty if unknown."""


@dataclass(frozen=True)
class RecordedSteps:
    """All that is recorded of the steps of one run. Every tuple is in the order of time."""

    stretches: tuple[Stretch, ...] = ()
    healings: tuple[Healing, ...] = ()
    states: tuple[tuple[float, int, int, str], ...] = ()
    """Time, rank, step, and the SHA-256 of the rank's weights and optimizer after it."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that took a step."""
        return tuple(sorted({s.rank for s in self.stretches}))

    def of(self, rank: int, process: Process | None = None) -> Iterator[tuple[float, int, int]]:
        """Yield time, number and number of ranks of each step of a rank, or of one process of it."""
        for stretch in self.stretches:
            if stretch.rank == rank and process in (None, stretch.process):
                for offset, at in enumerate(stretch.times):
                    yield at, stretch.first + offset, stretch.ranks

    def processes(self, rank: int) -> tuple[Process, ...]:
        """The processes of a rank that took a step, in their order."""
        return tuple(dict.fromkeys(s.process for s in self.stretches if s.rank == rank))

    def longest_gap(
        self, rank: int, process: Process | None, since: float, until: float
    ) -> tuple[float, float] | None:
        """Return begin and end of the longest time from one step of a rank to its next one.

        It lies in this time, or crosses its beginning. With `process` both are of that one; without it they
        may be of two.
        """
        times = [at for at, _, _ in self.of(rank, process)]
        gaps = [(a, b) for a, b in pairwise(times) if b > since and a < until]
        return max(gaps, key=lambda gap: gap[1] - gap[0], default=None)


def steps_of(events: Iterable[Event]) -> RecordedSteps:
    """Return the steps that these events of one run tell of; those that are malformed are left out."""
    stretches: list[Stretch] = []
    healings: list[Healing] = []
    states: list[tuple[float, int, int, str]] = []
    for event in sorted(events, key=lambda e: e.at):
        said, rank = event.payload, event.rank
        if rank is None or said.pid is None:
            continue
        process = (event.attempt, event.node_id, said.pid)
        if isinstance(said, StepsTaken):
            stretch = _stretch(rank, process, said)
            stretches += [stretch] if stretch else []
        elif isinstance(said, Healed) and said.step is not None:
            healings.append(Healing(event.at, rank, process, said.step, said.source))
        elif isinstance(said, StateHashed) and said.step is not None and said.sha256 is not None:
            states.append((event.at, rank, said.step, said.sha256))
    stretches.sort(key=lambda s: s.times[0])
    return RecordedSteps(tuple(stretches), tuple(healings), tuple(states))


def _stretch(rank: int, process: Process, said: StepsTaken) -> Stretch | None:
    if said.first is None or said.ranks is None or said.began is None:
        return None
    if said.ms is None or len(said.ms) >= MOST_STEPS:
        return None
    times = tuple(float(said.began) + so_far / 1000 for so_far in accumulate(said.ms, initial=0))
    return Stretch(rank, said.first, times, said.ranks, process)
