"""What of a repair that failed stays: the lab was up, and its jobs go on."""

from __future__ import annotations

from collections.abc import Collection

from lab.topology import HEAD, REDIS, STORE, is_node

USED = (STORE, REDIS, HEAD)
"""What every node and every job uses, so that it is not stopped while a node runs."""


def staying(started: Collection[str], ran: Collection[str], healthy: Collection[str]) -> set[str]:
    """Of the services that a repair has `started`, those that it leaves as they are when it fails.

    `ran` are all that ran before it began: what was started afresh of them stays. So does what has become
    `healthy`, since jobs may use it by now, and what the nodes use that run.
    """
    kept = {*ran, *healthy}
    if any(is_node(name) for name in kept):
        kept.update(USED)
    return kept & set(started)
