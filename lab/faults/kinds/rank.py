"""Faults of the process of one rank; its node lives on."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Parameter, Scene, Scope, Traits, lasting, rank_on_target
from lab.faults.kinds._probe import signal, tell_if_up
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


class RankHang(Fault):
    """SIGSTOP to one training process. No connection breaks: only Ray Train can notice, by its silence."""

    kind = FaultKind(
        name="rank-hang",
        summary="the process of one rank freezes, as in a deadlock; its node lives on",
        scope=Scope.RANK,
        parameters=(RANK, lasting("how long it is frozen (default: until training goes on without it)")),
        revert="the process is thawed, if Ray Train has not ended it",
        expected=Expected.RANK_LOST,
        traits=Traits("had a training process frozen"),
    )
    patience = 120.0
    """Ray Train gives a silent rank up after 30 s, and waits 5 s more for it to end in order."""

    def inject(self, scene: Scene) -> Struck | None:
        pid = rank_on_target(scene).pid
        scene.note(pid=pid)
        return signal(scene, "hang", pid)

    def revert(self, scene: Scene) -> None:
        """Let the rank go on. A process with the same id that is no rank of this node is left alone."""
        if "pid" in scene.memo:
            tell_if_up(scene, "rank", "thaw", scene.memo["pid"])
