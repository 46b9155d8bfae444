"""`rank-kill`: the process of one rank is gone; its node lives on."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Parameter, Scene, Scope, Traits, rank_on_target
from lab.faults.kinds._probe import signal
from lab.topology import Struck

RANK = Parameter("rank", "rank", "which rank (default: the lowest on the target)", low=0, high=100_000)


class RankKill(Fault):
    """SIGKILL to one training process, as by the kernel when memory runs out, or after a bug in a library."""

    kind = FaultKind(
        name="rank-kill",
        summary="SIGKILL to the process of one rank; its node lives on",
        scope=Scope.RANK,
        parameters=(RANK,),
        revert="nothing is left to undo",
        expected=Expected.RANK_LOST,
        traits=Traits("lost a training process"),
    )

    def inject(self, scene: Scene) -> Struck | None:
        return signal(scene, "kill", rank_on_target(scene).pid)

    def revert(self, scene: Scene) -> None:
        """No-op: nothing is left to undo."""
