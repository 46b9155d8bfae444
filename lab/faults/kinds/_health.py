"""The base of faults that a health check has to notice."""

from __future__ import annotations

from lab.api.health import CPU
from lab.cluster.health import HealthClient
from lab.errors import RefusedError
from lab.faults import Fault, Scene
from lab.faults.kinds._queues import queues_of


class Ordered(Fault):
    """Orders a check of the node to report a result, as no laptop's hardware can be broken on purpose.

    The order goes the way of every result: the node's agent is told, reports it, and the board decides.
    """

    checked: str
    """Name of the check."""
    state: str = "WARN"
    """The result that is ordered."""

    def check(self, scene: Scene) -> str:
        """Return the name of the check. Raises RefusedError."""
        return self.checked

    def device(self, scene: Scene) -> str:
        """Return the device that it is about; by default the node itself. Raises RefusedError."""
        return CPU

    def inject(self, scene: Scene) -> None:
        """Order the result. Raises RefusedError, NotFoundError when no agent has told of the device."""
        check, device = self.check(scene), self.device(scene)
        scene.note(check=check, device=device)
        message = f"the fault {self.kind.name} says so"
        HealthClient(queues_of(scene)).override(scene.target, device, check, self.state, message=message)

    def took(self, scene: Scene) -> bool:
        """Tell whether the order was given."""
        overrides = HealthClient(queues_of(scene)).view().overrides
        return any(
            (override.node, override.check) == (scene.target, scene.memo.get("check"))
            for override in overrides
        )

    def revert(self, scene: Scene) -> None:
        """Lift the order: the check decides again."""
        if "check" in scene.memo:
            HealthClient(queues_of(scene)).lift(scene.target, scene.memo["device"], scene.memo["check"])


def gpu_of(scene: Scene) -> str:
    """Return the GPU of the target, as its health agent calls it. Raises RefusedError."""
    devices = HealthClient(queues_of(scene)).view().devices
    gpus = [device.device for device in devices if device.node == scene.target and device.device != CPU]
    if not gpus:
        raise RefusedError(
            f"the health agent of {scene.target} has reported no GPU", "labctl health shows what is known"
        )
    return gpus[0]
