"""`head-kill`: the head is gone, and with it Ray's dashboard, its Jobs API and the state of the cluster."""

from __future__ import annotations

from lab.errors import EngineError, LabDownError, LabError
from lab.faults import Expected, Fault, FaultKind, Scene, Scope, Traits, lasting
from lab.host.clock import settle
from lab.services import is_worker
from lab.topology import State, Struck

REJOIN_SECONDS = 30.0
"""Time that the workers get to join the head that came back, before they are started again."""


class HeadKill(Fault):
    """SIGKILL to every process of the head."""

    kind = FaultKind(
        name="head-kill",
        summary="SIGKILL to every process of ray-head, and to the jobs whose entrypoint runs there",
        scope=Scope.CLUSTER,
        parameters=(lasting("how long the head stays down", 5.0),),
        revert="the head is started again; workers that do not find back to it are started again too",
        expected=Expected.HEAD_LOST,
        traits=Traits("was killed"),
    )

    def inject(self, scene: Scene) -> Struck | None:
        return scene.runtime.kill(scene.target)

    def revert(self, scene: Scene) -> None:
        """Start the head again. Workers find back by themselves, but not to another cluster of stock Ray."""
        scene.start()
        spec = scene.runtime.spec()
        patience = REJOIN_SECONDS if spec.gcs_ft or not spec.stock_ray else 0.0
        lost = settle(lambda: _lost(scene), lambda nodes: not nodes, timeout=patience, clock=self.clock)
        problem: LabError | None = None
        for service in lost:
            try:
                _bring_back(scene, service)
            except LabError as error:  # the others come back all the same
                problem = problem or error
        if problem is not None:
            raise problem


def _lost(scene: Scene) -> list[str]:
    """Return the workers that are not healthy."""
    services = scene.runtime.status().services
    return [s.service for s in services if is_worker(s.service) and s.state is not State.HEALTHY]


def _bring_back(scene: Scene, service: str) -> None:
    state = scene.state(service)
    if state is State.HEALTHY:  # it has found back while another one was being started
        return
    if state is State.PAUSED:  # `start` ends what is left of any other
        _kill_frozen(scene, service)
    scene.runtime.start(service, scene.on_progress)


def _kill_frozen(scene: Scene, service: str) -> None:
    """End a worker that is frozen. One that was thawed, or has ended, meanwhile is left to `start`."""
    try:
        scene.runtime.kill(service)
    except (LabDownError, EngineError):
        if scene.state(service) is State.PAUSED:
            raise
