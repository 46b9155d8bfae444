"""What a fault did to a training whose survivors go on: who was lost, for how long, and who went on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import inf
from statistics import median

from lab.api.receipt import RejoinedDocument, SurvivorDocument, SurvivorsDocument
from lab.evidence.ledger import Healing, Process, RecordedSteps, RunAttempt
from lab.host.quantities import rounded

SLOW_STEPS = 3.0
"""Usual steps that may pass between two steps of a survivor: the one that is given up, and taken again."""

STEP_IN_HAND = 1.5
"""Usual steps within which the lost ranks may be back before a survivor, in the midst of one, steps alone."""

LITTLE_SECONDS, LITTLE_SHARE = 2.0, 0.5
"""Longest gap of a survivor that counts as going on: in seconds, or as a share of the time it was alone."""


@dataclass(frozen=True)
class Survivor:
    """A rank that was not lost, from the fault until the lost ones were back. Times in seconds."""

    rank: int
    longest_gap: float | None
    """The longest time between two of its steps; None where it took none after the fault."""
    steps_alone: int
    """Steps that it took without the lost ranks."""
    usual_gap: float | None = None
    """The usual time between two of its steps before the fault; None where it took fewer than two."""

    def waited(self, absence: float | None) -> bool:
        """Tell whether it stood still until the lost ranks were back, after `absence` seconds.

        Not if its longest gap is little for the steps that it takes, or for the time that it was alone.
        """
        if self.longest_gap is None:
            return True
        if self.longest_gap <= SLOW_STEPS * (self.usual_gap or 0.0):
            return False
        most = LITTLE_SECONDS if absence is None else max(LITTLE_SECONDS, LITTLE_SHARE * absence)
        return not self.steps_alone or self.longest_gap > most

    def undecided(self, absence: float | None) -> bool:
        """Tell whether it may have waited: it never stepped alone, although it had the time for a step."""
        longest = STEP_IN_HAND * (self.usual_gap or 0.0)
        return not self.steps_alone and (absence is None or absence > longest)


@dataclass(frozen=True)
class Survival:
    """The steps of an attempt around a fault at `at`, up to `until`; both are seconds since the epoch."""

    attempt: RunAttempt
    steps: RecordedSteps
    node_id: str
    """The node that the fault hit."""
    at: float
    until: float = inf

    @cached_property
    def nodes(self) -> Mapping[int, str]:
        """Rank -> node id when the fault came."""
        return self.attempt.nodes_at(self.at)

    @cached_property
    def _given_up(self) -> Mapping[int, float]:
        """Rank -> time at which Ray Train gave it up after the fault."""
        lost = reversed(self.attempt.replacements)
        return {r.rank: r.given_up_at for r in lost if self.at <= r.given_up_at < self.until}

    @cached_property
    def _missed_at(self) -> Mapping[int, float]:
        """Rank on the node that was hit -> time at which it was given up, or others went on without it."""
        here = {rank for rank, node in self.nodes.items() if node == self.node_id}
        others = [s for s in self.steps.stretches if s.rank in self.nodes.keys() - here]
        alone = min(
            (s.times[0] for s in others if s.ranks < len(self.nodes) and self.at <= s.times[0] < self.until),
            default=inf,
        )
        missed = {rank: min(alone, self._given_up.get(rank, inf)) for rank in here}
        return {rank: at for rank, at in missed.items() if at < inf}

    @cached_property
    def healings(self) -> tuple[Healing, ...]:
        """The first healing of each rank that was missed after the fault.

        A rank may also drop out, and be healed, before it is lost: under load, or in an earlier fault.
        """
        first: dict[int, Healing] = {}
        for healing in self.steps.healings:
            missed = self._missed_at.get(healing.rank, inf)
            if missed <= healing.at < self.until:
                first.setdefault(healing.rank, healing)
        return tuple(first[rank] for rank in sorted(first))

    @cached_property
    def lost(self) -> tuple[int, ...]:
        """The ranks on that node that were given up, or came back with a neighbour's state."""
        seen = {*self._given_up, *(healing.rank for healing in self.healings)}
        return tuple(sorted(self._missed_at.keys() & seen))

    def outlasted(self, over: float) -> bool:
        """True if every lost rank took steps between the fault's end, at `over`, and being missed."""
        return all(
            any(over < at < self._missed_at[rank] for at, _, _ in self.steps.of(rank, self.process(rank)))
            for rank in self.lost
        )

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
        process = self.process(rank)
        taken = [(at, ranks) for at, _, ranks in self.steps.of(rank, process) if self.at < at <= end]
        gap = self.steps.longest_gap(rank, process, self.at, end) if process is not None else None
        alone = sum(ranks < len(self.nodes) for _, ranks in taken)
        times = [at for at, _, _ in self.steps.of(rank, process) if at <= self.at]
        before = [b - a for a, b in pairwise(times)]
        usual = median(before) if before else None
        return Survivor(rank, gap[1] - gap[0] if gap and taken else None, alone, usual)

    def process(self, rank: int) -> Process | None:
        """Return the process of a rank that took the last step before the fault."""
        before = [s.process for s in self.steps.stretches if s.rank == rank and s.times[0] <= self.at]
        return before[-1] if before else None

    @cached_property
    def longest_gap(self) -> float | None:
        """The longest gap of any survivor; None unless all took a step."""
        gaps = [survivor.longest_gap for survivor in self.survivors]
        known = [gap for gap in gaps if gap is not None]
        return max(known) if known and len(known) == len(gaps) else None

    @cached_property
    def repeated(self) -> tuple[int, int] | None:
        """Rank and number of a step that a rank took twice; None where there is none.

        A new process may take steps of its own before it is given the others' state, which makes them void.
        """
        healed = {(h.rank, h.process): h.at for h in reversed(self.steps.healings)}
        for rank in self.steps.ranks:
            processes, last = self.steps.processes(rank), 0
            for stretch in (s for s in self.steps.stretches if s.rank == rank):
                void = healed.get((rank, stretch.process), 0.0) if stretch.process != processes[0] else 0.0
                for number, at in enumerate(stretch.times, stretch.first):
                    if at < void:
                        continue
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
        by_step: dict[int, dict[int, str]] = {}
        for at, rank, step, sha256 in self.steps.states:
            if step > since and at >= self.at:
                by_step.setdefault(step, {})[rank] = sha256
        shared = [step for step, by_rank in by_step.items() if by_rank.keys() >= self.nodes.keys()]
        return (max(shared), by_step[max(shared)]) if shared else None

    def document(self) -> SurvivorsDocument:
        """Return it as receipts have it; seconds to the millisecond."""
        ranks = (SurvivorDocument(s.rank, rounded(s.longest_gap), s.steps_alone) for s in self.survivors)
        rejoined = (
            RejoinedDocument(h.rank, round(h.at - self.at, 3), h.step + 1, h.source or None)
            for h in self.healings
        )
        return SurvivorsDocument(
            rounded(self.longest_gap), rounded(self.full_strength), tuple(ranks), tuple(rejoined)
        )
