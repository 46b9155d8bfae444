"""`drain`: the end of a node is announced to Ray, as by a cloud that takes a spot machine back."""

from __future__ import annotations

import contextlib

from lab.errors import LabDownError, RefusedError
from lab.faults import FaultKind, Parameter, Scene, Traits
from lab.faults.kinds._probe import tell
from lab.faults.kinds.stop import Stop
from lab.host.clock import WALL, settle
from lab.topology import State, Struck

NOTICE = Parameter(
    "notice", "s", "how long before its end Ray is told (AWS: 120, Google and Azure: 30)", 30.0, 1.0, 3600.0
)


class Drain(Stop):
    """Ray takes nothing new there, Ray Train tells the script, and the node ends when its notice is over.

    A node whose notice has been given ends by itself (raylet of ray 2.60) as soon as nothing runs on it.
    """

    kind = FaultKind(
        name="drain",
        summary="Ray is told that the node is taken away, as from a cloud's spot machine; then it shuts down",
        scope=Stop.kind.scope,
        parameters=(NOTICE, *Stop.kind.parameters),
        revert=Stop.kind.revert,
        expected=Stop.kind.expected,
        traits=Traits("was announced to end, and ended", ends_node=True),
    )

    def inject(self, scene: Scene) -> Struck | None:
        notice = scene.parameters[NOTICE.name]
        scene.note(announced=True)
        try:
            first = float(tell(scene, "drain", scene.node_id, notice)["first"])
        except RefusedError:
            scene.note(announced=False)
            raise
        over = (None, State.ABSENT, State.EXITED)
        settle(scene.state, over.__contains__, timeout=notice, clock=self.clock)
        self._end(scene)
        return Struck(first, WALL())

    def _end(self, scene: Scene) -> None:
        with contextlib.suppress(LabDownError):  # it has ended by itself
            super().inject(scene)
        scene.note(announced=False)

    def revert(self, scene: Scene) -> None:
        """Start the node again. One that was announced and not ended takes nothing new for ever: it ends."""
        if scene.memo.get("announced"):
            self._end(scene)
        super().revert(scene)
