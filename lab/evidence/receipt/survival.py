"""What a fault did to a training whose survivors go on: who was lost, for how long, and who went on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

from lab.evidence.ledger import Healing, RunAttempt, Steps
from lab.host.quantities import rounded


@dataclass(frozen=True)
class Survivor:
    """A rank that was not lost, from the fault until the lost ones were back. Times in seconds."""

    rank: int
    longest_gap: float | None
    """The longest time between two of its steps; None where it took none after the fault."""
    steps_alone: int
    """Steps that it took without the lost ranks."""


@dataclass(frozen=True)
class Survival:
    """The steps of an attempt around a fault at `at`, up to `until`; both are seconds since the epoch."""

    attempt: RunAttempt
    steps: Steps
    node_id: str
    """The node that the fault hit."""
    at: float
    until: float = inf

    @cached_property
    def nodes(self) -> Mapping[int, str]:
        """Rank -> node id when the fault came."""
        return self.attempt.nodes_at(self.at)

    @cached_property
    def healings(self) -> tuple[Healing, ...]:
        """The first healing after the fault of each rank on the node that was hit."""
        first: dict[int, Healing] = {}
        for healing in self.steps.healings:
            on_node = self.nodes.get(healing.rank) == self.node_id
            if on_node and self.at <= healing.at < self.until:
                first.setdefault(healing.rank, healing)
        return tuple(first[rank] for rank in sorted(first))

    @cached_property
    def lost(self) -> tuple[int, ...]:
        """The ranks on that node that were given up, or came back with a neighbour's state."""
        given_up = {r.rank for r in self.attempt.replacements if self.at <= r.given_up_at < self.until}
        here = {rank for rank, node in self.nodes.items() if node == self.node_id}
        return tuple(sorted(here & (given_up | {h.rank for h in self.healings})))

    @cached_property
    def back_at(self) -> float | None:
        """Time of the first step of all ranks after the lost ones were healed; None while there is none."""
        healed = {h.rank: h.at for h in self.healings}
        if not self.lost or any(rank not in healed for rank in self.lost):
            return None
        times = (
            at
            for rank in self.steps.ranks
            if rank not in self.lost
            for at, _, ranks in self.steps.of(rank)
            if max(healed.values()) <= at < self.until and ranks == len(self.nodes)
        )
        return min(times, default=None)

    @property
    def full_strength(self) -> float | None:
        """Seconds from the fault to that step."""
        return None if self.back_at is None else self.back_at - self.at

    @cached_property
    def survivors(self) -> tuple[Survivor, ...]:
        """Every other rank."""
        end = self.until if self.back_at is None else self.back_at
        return tuple(self._survivor(rank, end) for rank in sorted(self.nodes) if rank not in self.lost)

    def _survivor(self, rank: int, end: float) -> Survivor:
        pid = self.process(rank)
        taken = [(at, ranks) for at, _, ranks in self.steps.of(rank, pid) if self.at < at <= end]
        gap = self.steps.longest_gap(rank, pid, self.at, end) if pid is not None else None
        alone = sum(ranks < len(self.nodes) for _, ranks in taken)
        return Survivor(rank, gap.seconds if gap and taken else None, alone)

    def process(self, rank: int) -> int | None:
        """Return the process of a rank that took the last step before the fault."""
        before = [s.pid for s in self.steps.stretches if s.rank == rank and s.times[0] <= self.at]
        return before[-1] if before else None

    @cached_property
    def longest_gap(self) -> float | None:
        """The longest gap of any survivor; None unless all took a step."""
        gaps = [survivor.longest_gap for survivor in self.survivors]
        known = [gap for gap in gaps if gap is not None]
        return max(known) if known and len(known) == len(gaps) else None

    @cached_property
    def repeated(self) -> tuple[int, int] | None:
        """Rank and number of a step that a rank took twice, or that it left out; None where there is none."""
        for rank in self.steps.ranks:
            last = 0
            for _, number, _ in self.steps.of(rank):
                if number <= last:
                    return rank, number
                last = number
        return None

    @cached_property
    def compared(self) -> tuple[int, Mapping[int, str]] | None:
        """The last step, after the lost ranks were back, with a state of every rank: rank -> SHA-256."""
        if not self.healings:
            return None
        since = max(healing.step for healing in self.healings)
        found: dict[int, dict[int, str]] = {}
        for state in self.steps.states:
            if state.step > since and state.at >= self.at:
                found.setdefault(state.step, {})[state.rank] = state.sha256
        shared = [step for step, by_rank in found.items() if by_rank.keys() >= self.nodes.keys()]
        return (max(shared), found[max(shared)]) if shared else None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON; seconds to the millisecond."""
        return {
            "longest_gap": rounded(self.longest_gap),
            "full_strength": rounded(self.full_strength),
            "ranks": [
                {"rank": s.rank, "longest_gap": rounded(s.longest_gap), "steps_alone": s.steps_alone}
                for s in self.survivors
            ],
            "rejoined": [
                {
                    "rank": h.rank,
                    "after": rounded(h.at - self.at),
                    "step": h.step + 1,
                    "source": h.source or None,
                }
                for h in self.healings
            ],
        }
