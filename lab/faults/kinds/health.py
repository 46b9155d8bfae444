"""Faults that a health check has to notice."""

from __future__ import annotations

from lab.api.health import CPU
from lab.cluster.health import HealthClient
from lab.errors import NotFoundError, RefusedError
from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting
from lab.faults.kinds._queues import queues_of


class Ordered(Fault):
    """Orders a check of the node to report a result, as no laptop's hardware can be broken on purpose.

    The order goes the way of every result: the node's agent is told, reports it, and the board decides.
    """

    checked: str
    """Name of the check."""
    state: str = "WARN"
    """The result that is ordered."""

    def device(self, scene: Scene) -> str:
        """Return the device that it is about; by default the node itself. Raises RefusedError."""
        return CPU

    def inject(self, scene: Scene) -> None:
        """Order the result. Raises RefusedError, NotFoundError when no agent has told of the device."""
        device = self.device(scene)
        scene.note(device=device)
        message = f"the fault {self.kind.name} says so"
        HealthClient(queues_of(scene)).override(
            scene.target, device, self.checked, self.state, message=message
        )

    def took(self, scene: Scene) -> bool:
        """Tell whether the order was given."""
        overrides = HealthClient(queues_of(scene)).view().overrides
        return any((override.node, override.check) == (scene.target, self.checked) for override in overrides)

    def revert(self, scene: Scene) -> None:
        """Lift the order: the check decides again."""
        if "device" in scene.memo:
            HealthClient(queues_of(scene)).lift(scene.target, scene.memo["device"], self.checked)


class ClockSkew(Ordered):
    """The check of the clock says WARN. The clock, which all nodes of one machine share, is left alone."""

    kind = FaultKind(
        name="clock-skew",
        summary="the health check of the node's clock is made to say WARN; no clock is changed",
        scope=Scope.NODE,
        parameters=(lasting("how long the check says so", 20.0),),
        revert="the check decides again",
        expected=Expected.DOUBTED,
        traits=Traits("has a wrong clock"),
    )
    checked = "clock-skew"


class SlowDisk(Ordered):
    """The check of the disk's latency says WARN. The disk itself is as fast as before."""

    kind = FaultKind(
        name="slow-disk",
        summary="the health check of the node's disk is made to say WARN; the disk is not slowed",
        scope=Scope.NODE,
        parameters=(lasting("how long the check says so", 20.0),),
        revert="the check decides again",
        expected=Expected.DOUBTED,
        traits=Traits("has a slow disk"),
    )
    checked = "disk-latency"


class GpuSick(Ordered):
    """The check of the GPU's memory errors says EVICT. The GPU itself is left as it is."""

    kind = FaultKind(
        name="gpu-sick",
        summary="a health check of the node's GPU is made to say EVICT; the GPU is not harmed",
        scope=Scope.NODE,
        parameters=(lasting("how long the check says so", 20.0),),
        revert="the check decides again; the GPU takes work when it has passed twice",
        expected=Expected.SICK,
        traits=Traits("has a sick GPU"),
    )
    checked = "ecc"
    state = "EVICT"

    def refuse(self, scene: Scene) -> None:
        """Raise RefusedError also for a job that nobody would move."""
        super().refuse(scene)
        if not scene.job:
            return
        try:
            queues_of(scene).describe(scene.job)
        except NotFoundError as error:
            raise RefusedError(
                f"job {scene.job} was submitted past the controller, which could not move it",
                "labctl submit RECIPE --queue NAME, or with --retry-limit 3",
            ) from error

    def device(self, scene: Scene) -> str:
        """Return the GPU of the target, as its health agent calls it. Raises RefusedError."""
        devices = HealthClient(queues_of(scene)).view().devices
        gpus = [device.device for device in devices if device.node == scene.target and device.device != CPU]
        if not gpus:
            raise RefusedError(
                f"the health agent of {scene.target} has reported no GPU", "labctl health shows what is known"
            )
        return gpus[0]

    def inject(self, scene: Scene) -> None:
        self.refuse(scene)
        super().inject(scene)
