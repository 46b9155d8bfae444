"""What the faults share that use up something of a node until its ranks have felt it."""

from __future__ import annotations

from lab.errors import RefusedError
from lab.faults.base import Fault, Scene
from lab.faults.probe import start_if_down, tell, tell_if_up


class HoggingFault(Fault):
    """A process on the node takes what is left, and gives it back once the node's ranks are gone.

    It must not outlast them: the next attempt may come to the same node, and would be lost as well.
    """

    word: str
    """What the probe calls it."""
    patience = 60.0

    def inject(self, scene: Scene) -> None:
        """See Fault.inject."""
        pids = sorted(rank.pid for rank in scene.ranks)
        if not pids:
            raise RefusedError(f"{scene.target} runs no rank of job {scene.job}", "choose a node that does")
        scene.memo["hog"] = self.word
        scene.remember()
        tell(scene, "hog", "start", self.word, *pids, timeout=90.0)

    def revert(self, scene: Scene) -> None:
        """See Fault.revert. A node that did not survive is started again."""
        if scene.memo.get("hog"):
            tell_if_up(scene, "hog", "stop", self.word)
        start_if_down(scene)
