"""`crash-restart`: a node crashes and its supervisor starts it again at once."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits
from lab.host.clock import settle
from lab.topology import State, Struck

BACK_SECONDS = 60.0
"""Deadline for a crashed node to be back by itself; on 2 busy cores it is in the cluster after 16 s."""

STARTING_SECONDS = 180.0
"""The same of one that is starting by then: to end it in the middle of that would gain nothing."""


class CrashRestart(Fault):
    """SIGKILL to every process of the node, which comes back by itself: as a new node, under its old name."""

    kind = FaultKind(
        name="crash-restart",
        summary="every process of the node dies, and its supervisor starts it again at once",
        scope=Scope.NODE,
        revert="the node comes back by itself, or is started",
        expected=Expected.NODE_LOST,
        traits=Traits("crashed", ends_node=True),
    )

    signs = (*Fault.signs, State.STARTING, State.RUNNING)

    def inject(self, scene: Scene) -> Struck | None:
        return scene.runtime.crash(scene.target)

    def revert(self, scene: Scene) -> None:
        """Take the supervisor away from the node again."""
        begin = self.clock()

        def over(state: State | None) -> bool:
            starting = state in (State.STARTING, State.RUNNING)
            return state is State.HEALTHY or (not starting and self.clock() - begin >= BACK_SECONDS)

        settle(scene.state, over, timeout=STARTING_SECONDS, clock=self.clock)
        scene.start()
