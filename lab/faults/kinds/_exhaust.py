"""The base of faults that use up a resource of a node until its ranks have felt it."""

from __future__ import annotations

from lab.errors import RefusedError
from lab.faults import Fault, Scene
from lab.faults.kinds._probe import tell, tell_if_up


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
