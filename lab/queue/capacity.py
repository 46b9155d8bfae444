"""Capacity that is lost: nodes and GPUs that quotas count on and that take no work now.

As in MLBatch 1.0.0, the slack queue pays first: of a quota of 8 it lends 8 less what is lost, and never
less than 0. So teams keep what is theirs, and only less can be borrowed. What no slack queue pays is missing
at the top of the tree that has most of it: fewer workloads are admitted there, and every quota stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lab.queue.model import FlavorResource, Usage
from lab.queue.tree import Node, Tree

SLACK = "slack-cluster-queue"
"""Name of the ClusterQueue that pays first; it lends all that it has, and has no jobs of its own."""


def shrink(tree: Tree, lost: Usage) -> None:
    """Take what is lost from a tree that was just built."""
    for place, amount in sorted(lost.items()):
        rest = _lend_less(tree, place, amount)
        for root in sorted(_roots(tree), key=lambda each: (-each.subtree.get(place, 0), each.name)):
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


def _roots(tree: Tree) -> Iterator[Node]:
    nodes = (*tree.cohorts.values(), *tree.queues.values())
    yield from (each for each in nodes if each.parent is None)
