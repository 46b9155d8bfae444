"""`oom`: the memory of a node is used up by something that is not the training."""

from __future__ import annotations

from lab.evidence.receipt.expected import Expected
from lab.faults.base import FaultKind, Scope
from lab.faults.exhaust import HoggingFault
from lab.runtime.base import Feature


class Oom(HoggingFault):
    """Another process takes the node's memory up to 98 % of its limit; Ray or the kernel ends the rank."""

    kind = FaultKind(
        name="oom",
        summary="another process uses up the node's memory, so that Ray or the kernel ends the rank",
        scope=Scope.NODE,
        parameters=(),
        revert="the memory is given back, once the rank is gone; a node that did not survive is started",
        expected=Expected.RANK_LOST,
        needs=(Feature.MEMORY_LIMIT,),
    )
    word = "memory"
