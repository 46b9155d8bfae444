"""`slow-disk`: writes to the disk of a node take seconds, as its health check has it."""

from __future__ import annotations

from lab.faults import Expected, FaultKind, Scope, Traits, lasting
from lab.faults.kinds._health import Ordered


class SlowDisk(Ordered):
    """The check of the disk's latency says WARN. The disk itself is as fast as before."""

    kind = FaultKind(
        name="slow-disk",
        summary="the health check of the node's disk finds it slow: WARN; ordered, the disk is not slowed",
        scope=Scope.NODE,
        parameters=(lasting("how long the check says so", 20.0),),
        revert="the check decides again",
        expected=Expected.DOUBTED,
        traits=Traits("has a slow disk"),
    )
    checked = "disk-latency"
