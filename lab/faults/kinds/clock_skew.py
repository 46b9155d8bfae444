"""`clock-skew`: the clock of a node is wrong, as its health check has it."""

from __future__ import annotations

from lab.faults import Expected, FaultKind, Scope, Traits, lasting
from lab.faults.kinds._health import Ordered


class ClockSkew(Ordered):
    """The check of the clock says WARN. The clock, which all nodes of one machine share, is left alone."""

    kind = FaultKind(
        name="clock-skew",
        summary="the health check of the node's clock finds it wrong: WARN; ordered, no clock is changed",
        scope=Scope.NODE,
        parameters=(lasting("how long the check says so", 20.0),),
        revert="the check decides again",
        expected=Expected.DOUBTED,
        traits=Traits("has a wrong clock"),
    )
    checked = "clock-skew"
