"""Faults that a health check has to notice."""

from __future__ import annotations

from lab.api.health import CPU, EVICT, PASS, WARN, Symptom
from lab.cluster.health import HealthClient
from lab.errors import NotFoundError, RefusedError
from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting
from lab.faults.kinds._queues import queues_of

MARGIN_SECONDS = 60.0
"""Time after its end at which a fault is over although nobody has reverted it: its lab was down then, say."""


class Sickness(Fault):
    """Lets a check of the node say something, as no laptop's hardware can be broken on purpose."""

    checked: str
    """Name of the check."""
    state: str = WARN
    """What it says."""

    def device(self, scene: Scene) -> str:
        """Return the device that it is about; by default the node itself. Raises RefusedError."""
        return CPU

    def inject(self, scene: Scene) -> None:
        """Let the check say it. Raises RefusedError, NotFoundError when no agent has told of the device."""
        device = self.device(scene)
        scene.note(device=device)
        client = HealthClient(queues_of(scene))
        until = client.view().now + scene.parameters["for"] + MARGIN_SECONDS
        message = f"the fault {self.kind.name} says so"
        client.symptom(Symptom(scene.target, device, self.checked, self.state, message, until))

    def took(self, scene: Scene) -> bool:
        """Tell whether the check says it."""
        symptoms = HealthClient(queues_of(scene)).view().symptoms
        return (scene.target, self.checked) in {(symptom.node, symptom.check) for symptom in symptoms}

    def revert(self, scene: Scene) -> None:
        """Let the check speak for itself again."""
        if "device" in scene.memo:
            symptom = Symptom(scene.target, scene.memo["device"], self.checked, PASS)
            HealthClient(queues_of(scene)).symptom(symptom)


class ClockSkew(Sickness):
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


class SlowDisk(Sickness):
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


class GpuSick(Sickness):
    """The check of the GPU's memory errors says EVICT. The GPU itself is left as it is."""

    kind = FaultKind(
        name="gpu-sick",
        summary="a health check of the node's GPU is made to say EVICT; the GPU is not harmed",
        scope=Scope.NODE,
        parameters=(lasting("how long the check says so", 20.0),),
        revert="the check decides again",
        expected=Expected.SICK,
        traits=Traits("has a sick GPU"),
    )
    checked = "ecc"
    state = EVICT

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
