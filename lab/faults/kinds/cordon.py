"""`cordon`: a pod is moved off its machine, as before maintenance of that machine in a cluster."""

from __future__ import annotations

from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting
from lab.runtime.base import Feature
from lab.topology import Struck

GRACE_SECONDS = 30.0
"""Time that the pod has to end: what Kubernetes gives by default."""


class Cordon(Fault):
    """The machine takes no new pods, and the pod is deleted in order: what a drain does to one pod."""

    kind = FaultKind(
        name="cordon",
        summary="the machine of a pod is closed to new pods, and the pod is deleted, as in a drain",
        scope=Scope.NODE,
        parameters=(lasting("how long the machine is cordoned (default: until training goes on elsewhere)"),),
        revert="the machine takes pods again",
        expected=Expected.NODE_LOST,
        traits=Traits("was deleted off its cordoned machine", ends_node=True),
        needs=(Feature.CORDON,),
        clusters=True,
    )
    patience = 300.0

    def inject(self, scene: Scene) -> Struck | None:
        machine = scene.runtime.machine(scene.target)
        scene.note(machine=machine)
        scene.runtime.cordon(machine)
        return scene.runtime.stop(scene.target, timeout=GRACE_SECONDS)

    def revert(self, scene: Scene) -> None:
        machine = scene.memo.get("machine")
        if machine:
            scene.runtime.uncordon(machine)
            scene.start()
