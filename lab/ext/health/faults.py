"""Faults that a health check has to notice: each lets one, by its name, say something else than it finds."""

from __future__ import annotations

from lab.api.health import CPU, EVICT, PASS, WARN, Symptom
from lab.cluster.health import HealthClient
from lab.errors import NotFoundError, RefusedError
from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting
from lab.faults.kinds._queues import queues_of

MARGIN_SECONDS = 60.0
"""Time after its end at which a fault is over although nobody has reverted it: its lab was down then, say."""


def _kind(name: str, summary: str, expected: Expected, effect: str) -> FaultKind:
    return FaultKind(
        name=name,
        summary=summary,
        scope=Scope.NODE,
        parameters=(lasting("how long the check says so", 20.0),),
        revert="the check decides again",
        expected=expected,
        traits=Traits(effect),
    )


class Sickness(Fault):
    """Lets a check of the node say something, as no laptop's hardware can be broken on purpose."""

    check: str
    state: str = WARN
    """What the check says."""

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
        client.symptom(Symptom(scene.target, device, self.check, self.state, message, until))

    def took(self, scene: Scene) -> bool:
        """Tell whether the check says it."""
        symptoms = HealthClient(queues_of(scene)).view().symptoms
        return any((symptom.node, symptom.check) == (scene.target, self.check) for symptom in symptoms)

    def revert(self, scene: Scene) -> None:
        """Let the check speak for itself again."""
        if "device" in scene.memo:
            symptom = Symptom(scene.target, scene.memo["device"], self.check, PASS)
            HealthClient(queues_of(scene)).symptom(symptom)


class ClockSkew(Sickness):
    """The check of the clock says WARN. The clock, which all nodes of one machine share, is left alone."""

    summary = "the health check of the node's clock is made to say WARN; no clock is changed"
    kind = _kind("clock-skew", summary, Expected.DOUBTED, "has a wrong clock")
    check = "clock-skew"


class SlowDisk(Sickness):
    """The check of the disk's latency says WARN. The disk itself is as fast as before."""

    summary = "the health check of the node's disk is made to say WARN; the disk is not slowed"
    kind = _kind("slow-disk", summary, Expected.DOUBTED, "has a slow disk")
    check = "disk-latency"


class GpuSick(Sickness):
    """The check of the GPU's memory errors says EVICT. The GPU itself is left as it is."""

    summary = "a health check of the node's GPU is made to say EVICT; the GPU is not harmed"
    kind = _kind("gpu-sick", summary, Expected.SICK, "has a sick GPU")
    check = "ecc"
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
        for device in HealthClient(queues_of(scene)).view().devices:
            if device.node == scene.target and device.device != CPU:
                return device.device
        raise RefusedError(
            f"the health agent of {scene.target} has reported no GPU", "labctl health shows what is known"
        )

    def inject(self, scene: Scene) -> None:
        self.refuse(scene)
        super().inject(scene)
