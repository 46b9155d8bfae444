"""Search for flavors: which one serves each resource of each pod set, and what that would take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache

from kueue import reasons
from kueue.capacity import misfit
from kueue.item import Item, Tried, requests
from kueue.matching import refusal
from kueue.model import (
    NEVER,
    PODS,
    TRY_NEXT_FLAVOR,
    Admission,
    ClusterQueue,
    FlavorResource,
    Fungibility,
    PodSetAdmission,
    ResourceGroup,
    Setup,
)
from kueue.tree import QuotaNode


class Mode(IntEnum):
    """Ways to get a flavor, the worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


Oracle = Callable[[FlavorResource, int], tuple[Mode, int]]
"""The mode that preemption would give for an amount of one flavor's resource, and the borrowing after it."""

Grade = tuple[Mode, int]
"""A mode with its borrowing level."""

WORST: Grade = (Mode.NO_FIT, 1 << 62)


@dataclass
class PodSetAssignment:
    """Flavors of one pod set, with the reasons against them; no flavors where none will do."""

    name: str
    count: int
    requests: Mapping[str, int]
    flavors: dict[str, str] = field(default_factory=dict)
    modes: dict[str, Mode] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    blockers: dict[int, str] = field(default_factory=dict)
    """Resource group -> the mildest reason among its flavors that do not fit."""

    @property
    def mode(self) -> Mode:
        """The worst over the resources."""
        if not self.reasons:
            return Mode.FIT
        return min(self.modes.values(), default=Mode.NO_FIT)


@dataclass
class Assignment:
    """Flavors of a whole workload. `deferred` marks one that fits only after preemptions of this cycle."""

    pod_sets: list[PodSetAssignment] = field(default_factory=list)
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    borrowing: int = 0
    tried: Tried | None = None
    deferred: bool = False

    @property
    def mode(self) -> Mode:
        """The worst over the pod sets; anything that needs a preemption is told as PREEMPT."""
        worst = min((pod_set.mode for pod_set in self.pod_sets), default=Mode.NO_FIT)
        return Mode.PREEMPT if Mode.NO_FIT < worst < Mode.FIT else worst

    @property
    def need_preemption(self) -> set[FlavorResource]:
        """Every flavor's resource that is not free."""
        return {
            FlavorResource(pod_set.flavors[resource], resource)
            for pod_set in self.pod_sets
            for resource, mode in pod_set.modes.items()
            if mode < Mode.FIT
        }

    @property
    def reason(self) -> str:
        """The most severe reason of those pod sets that fit nowhere."""
        worst = ""
        for pod_set in self.pod_sets:
            if pod_set.mode == Mode.NO_FIT:
                reason = reasons.NO_MATCHING_FLAVOR if not pod_set.blockers else ""
                for blocker in pod_set.blockers.values():
                    reason = reasons.worse(reason, blocker)
                worst = reasons.worse(worst, reason)
        return worst

    @property
    def message(self) -> str:
        """Kueue's message, pod set by pod set."""
        return "; ".join(
            f"couldn't assign flavors to pod set {pod_set.name}: {', '.join(sorted(pod_set.reasons))}"
            for pod_set in self.pod_sets
            if pod_set.reasons
        )

    def admission(self, cluster_queue: str) -> Admission:
        """The reservation this makes."""
        return Admission(
            cluster_queue,
            tuple(
                PodSetAdmission(
                    pod_set.name,
                    pod_set.count,
                    dict(pod_set.flavors),
                    {r: pod_set.requests[r] for r in pod_set.flavors},
                )
                for pod_set in self.pod_sets
            ),
        )


@dataclass(frozen=True)
class Finder:
    """Everything that a search for flavors depends on. `pinned` limits it to these flavors."""

    setup: Setup
    queue: ClusterQueue
    node: QuotaNode
    item: Item
    oracle: Oracle
    generation: int
    cycle: int
    pinned: Sequence[Mapping[str, str]] | None = None

    def find(self, counts: Sequence[int] | None = None) -> Assignment:
        """Assign flavors to every pod set, with these counts instead of the full ones."""
        pod_sets = self.item.workload.pod_sets
        assignment = Assignment()
        places: list[dict[str, int]] = []
        covers_pods = self.queue.group_of(PODS) is not None
        whole = [pod_set.count for pod_set in pod_sets] if counts is None else list(counts)
        for number, wanted in enumerate(requests(pod_sets, counts)):
            if covers_pods:
                wanted[PODS] = whole[number]
            assigned = PodSetAssignment(pod_sets[number].name, whole[number], wanted)
            tried = self._pod_set(number, assigned, assignment.usage)
            waits = assigned.mode != Mode.NO_FIT or reasons.WAITING_FOR_QUOTA in assigned.blockers.values()
            if waits and (never := misfit(pod_sets[number], whole[number], self.setup.nodes)):
                assigned.flavors, assigned.modes, tried = {}, {}, {}
                assigned.reasons, assigned.blockers = [never], {-1: reasons.NO_NODE}
            assignment.pod_sets.append(assigned)
            for resource, (borrowing, place) in tried.items():
                assignment.borrowing = max(assignment.borrowing, borrowing)
                at = FlavorResource(assigned.flavors[resource], resource)
                assignment.usage[at] = assignment.usage.get(at, 0) + wanted[resource]
                tried[resource] = (borrowing, place)
            places.append({resource: place for resource, (_, place) in tried.items()})
            if assigned.mode == Mode.NO_FIT:
                break
        assignment.tried = Tried(tuple(places), self.generation, self.cycle)
        return assignment

    def _pod_set(
        self, number: int, assigned: PodSetAssignment, used: Mapping[FlavorResource, int]
    ) -> dict[str, tuple[int, int]]:
        """Fill in the flavors of one pod set; resource -> borrowing level and place of the last flavor."""
        tried: dict[str, tuple[int, int]] = {}
        for resource in sorted(assigned.requests, key=rank):
            if resource in assigned.flavors:
                continue
            group = self.queue.group_of(resource)
            if group is None:
                if assigned.requests[resource] == 0 or self.setup.config.ignore_undeclared:
                    continue
                assigned.reasons = [f"resource {resource} unavailable in ClusterQueue"]
                assigned.flavors, assigned.modes = {}, {}
                return {}
            best, reasons_of_group, at = self._group(number, assigned, group, resource, used)
            if not best:
                assigned.reasons, assigned.flavors, assigned.modes = reasons_of_group, {}, {}
                return {}
            assigned.reasons += reasons_of_group
            for name, (flavor, mode, borrowing) in best.items():
                assigned.flavors[name], assigned.modes[name] = flavor, mode
                tried[name] = (borrowing, at)
        return tried

    def _group(
        self,
        number: int,
        assigned: PodSetAssignment,
        group: ResourceGroup,
        resource: str,
        used: Mapping[FlavorResource, int],
    ) -> tuple[dict[str, tuple[str, Mode, int]], list[str], int]:
        """Try the flavors of a group: resource -> flavor, mode and borrowing; the reasons; the last place."""
        wanted = [name for name in sorted(assigned.requests, key=rank) if name in group.resources]
        tried = self.item.tried
        place = -1
        best: dict[str, tuple[str, Mode, int]] = {}
        best_grade = WORST
        refusals: list[str] = []
        begin = tried.first(number, resource) if tried is not None else 0
        index = self.queue.groups.index(group)
        for place in range(begin, len(group.flavors)):
            name = group.flavors[place].name
            if self.pinned is not None and self.pinned[number].get(resource) != name:
                refusals.append(
                    f"skipping flavor {name} as it is not found in the nomination mapping for "
                    f"resource {resource}"
                )
                continue
            flavor = self.setup.flavors.get(name)
            pod_set = self.item.workload.pod_sets[number]
            refused = f"flavor {name} not found" if flavor is None else refusal(pod_set, flavor)
            if refused:
                refusals.append(refused)
                self._blocked(assigned, index, reasons.NO_MATCHING_FLAVOR)
                continue
            grade: Grade = (Mode.FIT, 0)
            here: dict[str, tuple[str, Mode, int]] = {}
            blocker = ""
            for one in wanted:
                at = FlavorResource(name, one)
                mode, borrowing, why, kind = self._one(at, used.get(at, 0), assigned.requests[one])
                if why:
                    refusals.append(why)
                    blocker = reasons.worse(blocker, kind)
                if preferred(grade, (mode, borrowing), self.queue.fungibility):
                    grade = (mode, borrowing)
                if grade[0] != Mode.NO_FIT:
                    here[one] = (name, mode, borrowing)
            if grade[0] == Mode.NO_FIT:
                self._blocked(assigned, index, blocker)
            if not go_on(grade, self.queue.fungibility):
                best, best_grade = here, grade
                break
            if preferred(grade, best_grade, self.queue.fungibility):
                best, best_grade = here, grade
        last = -1 if place == len(group.flavors) - 1 else place
        return best, [] if best_grade[0] == Mode.FIT else refusals, last

    def _one(self, at: FlavorResource, before: int, value: int) -> tuple[Mode, int, str, str]:
        """Mode, borrowing level, reason in words and in short, for one resource in one flavor."""
        node, total = self.node, before + value
        most = node.potential(at)
        if total > most:
            return Mode.NO_FIT, 0, reasons.too_big(at, before, value, most), reasons.EXCEEDS_MAX_QUOTA
        borrowing, may_reclaim = node.borrowing_level(at, total)
        free = node.available(at)
        if total <= free:
            return Mode.FIT, borrowing, "", ""
        why = reasons.short_of(at, total - free)
        quota = node.quotas.get(at)
        if (quota is not None and quota.nominal >= total) or may_reclaim or self._may_preempt_borrowing():
            mode, borrowing = self.oracle(at, total)
            return mode, borrowing, why, ""
        return Mode.NO_FIT, borrowing, why, reasons.WAITING_FOR_QUOTA

    def _may_preempt_borrowing(self) -> bool:
        policy = self.queue.preemption
        fair = self.setup.config.strategies is not None
        return policy.borrow != NEVER or (fair and policy.reclaim != NEVER)

    @staticmethod
    def _blocked(assigned: PodSetAssignment, group: int, reason: str) -> None:
        known = assigned.blockers.get(group)
        if known is None or reasons.SEVERITY.get(reason, 0) < reasons.SEVERITY.get(known, 0):
            assigned.blockers[group] = reason


@cache
def rank(resource: str) -> int:
    """Place in Kueue's order of resources: a hash, FNV-1a of 64 bits (pkg/resources/slice_requests.go)."""
    value = 0xCBF29CE484222325
    for byte in resource.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def preferred(a: Grade, b: Grade, fungibility: Fungibility) -> bool:
    """Tell if grade `a` is better than `b`: by mode and then borrowing, or the other way round."""
    if a[0] == Mode.NO_FIT or b[0] == Mode.NO_FIT:
        return a[0] != Mode.NO_FIT
    if (a[0] == Mode.NO_CANDIDATES) != (b[0] == Mode.NO_CANDIDATES):
        return b[0] == Mode.NO_CANDIDATES
    if fungibility.preference == "PreemptionOverBorrowing":
        return (a[1], -a[0]) < (b[1], -b[0])
    return (-a[0], a[1]) < (-b[0], b[1])


def go_on(grade: Grade, fungibility: Fungibility) -> bool:
    """Tell if the search continues after a flavor of this grade."""
    mode, borrowing = grade
    if mode <= Mode.NO_CANDIDATES:
        return True
    if mode < Mode.FIT and fungibility.when_can_preempt == TRY_NEXT_FLAVOR:
        return True
    return borrowing > 0 and fungibility.when_can_borrow == TRY_NEXT_FLAVOR


def reduced(
    counts: Sequence[int], least: Sequence[int | None], good: Callable[[Sequence[int]], bool]
) -> tuple[int, ...] | None:
    """The largest counts, between `counts` and `least`, that are good; None where there are none.

    `good` is asked in a binary search, so it must hold for all counts below some that it holds for.
    """
    gaps = [0 if low is None else count - low for count, low in zip(counts, least, strict=True)]
    whole = sum(gaps)
    if whole == 0:
        return None

    def at(step: int) -> tuple[int, ...]:
        return tuple(count - gap * step // whole for count, gap in zip(counts, gaps, strict=True))

    low, high = 0, whole + 1
    while low < high:
        middle = (low + high) // 2
        if good(at(middle)):
            high = middle
        else:
            low = middle + 1
    return at(low) if low <= whole else None
