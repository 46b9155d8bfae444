"""Capacity: quotas that give out more than there is, and nodes and GPUs that take no work now.

For what is lost the slack queue pays first, as in MLBatch 1.0.0: of a quota of 8 it lends 8 less what is
lost, and never less than 0. So teams keep what is theirs, and only less can be borrowed. What no slack queue
pays is missing at the top of the tree that has most of it: fewer workloads are admitted there, and every
quota stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kueue import reasons
from kueue.model import ClusterQueue, Cohort, FlavorResource, PodSet, Setup, Usage, quotas
from kueue.quantity import shown
from kueue.tree import QuotaNode, Tree

SLACK = "slack-cluster-queue"
"""Name of the ClusterQueue that pays first; it lends all that it has, and has no jobs of its own."""


@dataclass(frozen=True)
class Overcommitment:
    """A resource of which quotas give out more than there is; amounts are as quotas count them."""

    resource: str
    capacity: int
    owners: Mapping[str, int]
    """ClusterQueue or cohort -> its nominal quota of all flavors, which are so many accounts of one lab."""

    @property
    def quota(self) -> int:
        """The sum of the quotas."""
        return sum(self.owners.values())

    def __str__(self) -> str:
        """All of it in a sentence."""
        parts = ", ".join(f"{name} {shown(self.resource, quota)}" for name, quota in self.owners.items())
        total, has = shown(self.resource, self.quota), shown(self.resource, self.capacity)
        return (
            f"quotas of {self.resource} add up to {total} ({parts}), but the lab has {has}: "
            "jobs can be admitted that find no room"
        )


def overcommitted(setup: Setup, capacity: Mapping[str, int]) -> Iterator[Overcommitment]:
    """Resources of `capacity` of which the quotas together are more than that."""
    for resource, amount in capacity.items():
        owners: dict[str, int] = {}
        every: list[ClusterQueue | Cohort] = [*setup.cluster_queues.values(), *setup.cohorts.values()]
        for owner in every:
            nominal = sum(
                quota.nominal for place, quota in quotas(owner.groups) if place.resource == resource
            )
            if nominal:
                owners[owner.name] = owners.get(owner.name, 0) + nominal
        sums = Overcommitment(resource, amount, dict(sorted(owners.items())))
        if sums.quota > amount:
            yield sums


def shrink(tree: Tree, lost: Usage) -> None:
    """Take what is lost from a tree that was just built."""
    for place, amount in sorted(lost.items()):
        rest = _lend_less(tree, place, amount)
        for root in sorted(_roots(tree), key=lambda node: (-node.subtree.get(place, 0), node.name)):
            root.lost[place] = min(rest, root.subtree.get(place, 0))
            rest -= root.lost[place]


def _lend_less(tree: Tree, place: FlavorResource, amount: int) -> int:
    """Let the slack queue pay; returns what is left to pay."""
    slack = tree.queues.get(SLACK)
    quota = slack.quotas.get(place) if slack is not None and slack.parent is not None else None
    if slack is None or quota is None:
        return amount
    lends = max(0, quota.nominal - amount)
    least = lends if quota.lending is None else min(lends, quota.lending)
    slack.quotas[place] = replace(quota, lending=least)
    slack.root.sum_up()
    return max(0, amount - quota.nominal)


def _roots(tree: Tree) -> Iterator[QuotaNode]:
    nodes = (*tree.cohorts.values(), *tree.queues.values())
    yield from (node for node in nodes if node.parent is None)


def misfit(pod_set: PodSet, count: int, nodes: Sequence[Mapping[str, int]]) -> str:
    """Words for why so many of these pods would not fit on the nodes if all were free; nothing if they do."""
    asked = {resource: value for resource, value in pod_set.requests.items() if value > 0}
    if not nodes or not asked:
        return ""
    for resource, value in sorted(asked.items(), reverse=True):
        most = max(node.get(resource, 0) for node in nodes)
        if value > most:
            return reasons.no_node(resource, value, most)
    fit = sum(min(node.get(resource, 0) // value for resource, value in asked.items()) for node in nodes)
    return "" if fit >= count else reasons.few_places(fit, count)
