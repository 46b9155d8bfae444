"""Faults that use up a resource of a node until its ranks have felt it."""

from __future__ import annotations

from lab.errors import RefusedError
from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits
from lab.faults.kinds._probe import tell, tell_if_up
from lab.runtime.base import Feature


class ExhaustingFault(Fault):
    """A process on the node takes what is left, and gives it back once the node's ranks are gone.

    It must not outlast them: the next attempt may come to the same node, and would be lost as well.
    """

    word: str
    """The probe's name of the resource."""
    patience = 60.0

    def inject(self, scene: Scene) -> None:
        pids = sorted(rank.pid for rank in scene.ranks)
        if not pids:
            raise RefusedError(f"{scene.target} runs no rank of job {scene.job}", "choose a node that does")
        scene.note(hog=self.word)
        tell(scene, "hog", "start", self.word, *pids, timeout=90.0)

    def revert(self, scene: Scene) -> None:
        """Give back what is held. A node that did not survive is started again."""
        if scene.memo.get("hog"):
            tell_if_up(scene, "hog", "stop", self.word)
        scene.start_if_down()


class DiskFull(ExhaustingFault):
    """A file fills the node's TMPDIR: a training that writes its checkpoint there first cannot save it."""

    kind = FaultKind(
        name="disk-full",
        summary="the node's disk for temporary files is full, so that no checkpoint can be written there",
        scope=Scope.NODE,
        revert="the file is deleted, once the rank is gone",
        expected=Expected.RANK_LOST,
        traits=Traits("ran out of space for temporary files"),
        needs=(Feature.SCRATCH_DISK,),
    )
    word = "disk"
    patience = 120.0
    """Nothing happens before the next checkpoint is saved."""


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
