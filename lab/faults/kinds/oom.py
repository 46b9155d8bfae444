"""`oom`: the memory of a node is used up by something that is not the training."""

from __future__ import annotations

from lab.faults import Expected, FaultKind, Scope, Traits
from lab.faults.kinds._exhaust import ExhaustingFault
from lab.runtime.base import Feature


class Oom(ExhaustingFault):
    """Another process takes the node's memory up to 98 % of its limit; Ray or the kernel ends the rank."""

    kind = FaultKind(
        name="oom",
        summary="another process uses up the node's memory, so that Ray or the kernel ends the rank",
        scope=Scope.NODE,
        revert="the memory is given back, once the rank is gone; a node that did not survive is started",
        expected=Expected.RANK_LOST,
        traits=Traits("ran out of memory"),
        needs=(Feature.MEMORY_LIMIT,),
    )
    word = "memory"
