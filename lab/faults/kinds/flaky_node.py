"""`flaky-node`: a node dies and comes back, again and again."""

from __future__ import annotations

from functools import partial

from lab.api.health import CPU
from lab.cluster.health import HealthClient
from lab.faults import Expected, Fault, FaultKind, Parameter, Scene, Scope, Traits
from lab.faults.kinds._queues import queues_of
from lab.host.clock import settle

HEARD_SECONDS = 30.0
"""Deadline for the health agent of a node that has started to report."""


class FlakyNode(Fault):
    """Kills the node and starts it again, so often; each time its agent comes back as a new process."""

    kind = FaultKind(
        name="flaky-node",
        summary="the node is killed and comes back, again and again",
        scope=Scope.NODE,
        parameters=(Parameter("times", "times", "how often it dies", 3.0, 1.0, 20.0),),
        revert="the node runs; it is avoided for a while after so many returns",
        expected=Expected.DOUBTED,
        traits=Traits("came and went", ends_node=True),
    )
    patience = 300.0

    def inject(self, scene: Scene) -> None:
        """Kill and start it. Raises ServiceError, WaitTimeoutError."""
        for number in range(int(scene.parameters["times"])):
            before = self._heard(scene)
            scene.note(deaths=number + 1)
            scene.runtime.kill(scene.target)
            scene.start()
            settle(partial(self._newer, scene, before), bool, timeout=HEARD_SECONDS, clock=self.clock)

    def _newer(self, scene: Scene, before: float | None) -> bool:
        """Tell whether the node's agent has reported since."""
        heard = self._heard(scene)
        return heard is not None and (before is None or heard > before)

    def _heard(self, scene: Scene) -> float | None:
        """Return the time of the last report of the node's agent."""
        devices = HealthClient(queues_of(scene)).view().devices
        times = (device.heard for device in devices if (device.node, device.device) == (scene.target, CPU))
        return next(times, None)

    def took(self, scene: Scene) -> bool:
        """Tell whether it died at least once."""
        return "deaths" in scene.memo

    def revert(self, scene: Scene) -> None:
        scene.start_if_down()
