"""Allocation: who holds which resources where, which jobs wait and for what, and how busy the nodes are.

All of it comes from what Ray's dashboard says about actors, placement groups and tasks, so it holds for every
job: submitted with labctl, with `ray job submit`, or a notebook's own driver.
"""

from __future__ import annotations

from lab.cluster.allocation.loads import read_top
from lab.cluster.allocation.model import GpuLoad, Holding, NodeLoad, TopView, Waiting, amounts
from lab.cluster.allocation.snapshot import Snapshot, read
from lab.cluster.allocation.usage_by_job import holdings, living_ranks
from lab.cluster.allocation.waiting import waiting

__all__ = [
    "GpuLoad",
    "Holding",
    "NodeLoad",
    "Snapshot",
    "TopView",
    "Waiting",
    "amounts",
    "holdings",
    "living_ranks",
    "read",
    "read_top",
    "waiting",
]
