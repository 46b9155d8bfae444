"""`rank-hang`: the process of one rank freezes, as in a deadlock; its node lives on and answers."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting, rank_on_target
from lab.faults.kinds._probe import signal, tell_if_up
from lab.faults.kinds.rank_kill import RANK
from lab.topology import Struck


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
