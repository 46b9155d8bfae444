"""`head-kill`: the head is gone, and with it Ray's dashboard, its Jobs API and the state of the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.errors import EngineError, LabDownError, LabError
from lab.evidence.receipt.expected import Expected
from lab.faults.base import Fault, FaultKind, Scene, Scope, lasting
from lab.runtime.base import Runtime
from lab.topology import State, is_worker

REJOIN_SECONDS = 30.0
"""How long the workers get to join a head that came back with its state, before they are started again."""

POLL_SECONDS = 0.5


class HeadKill(Fault):
    """SIGKILL to every process of the head."""

    kind = FaultKind(
        name="head-kill",
        summary="SIGKILL to every process of ray-head, and to the jobs whose entrypoint runs there",
        scope=Scope.CLUSTER,
        parameters=(lasting("how long the head stays down", 5.0),),
        revert="the head is started again; workers that do not find back to it are started again too",
        expected=Expected.HEAD_LOST,
    )

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock, self._sleep = clock, sleep

    def inject(self, scene: Scene) -> None:
        """See Fault.inject."""
        scene.runtime.kill(scene.target)

    def revert(self, scene: Scene) -> None:
        """See Fault.revert. Without a memory outside of the head its workers belong to no cluster."""
        runtime = scene.runtime
        runtime.start(scene.target, scene.on_progress)
        patience = REJOIN_SECONDS if runtime.spec().gcs_ft else 0.0
        deadline = self._clock() + patience
        while (lost := self._lost(scene)) and self._clock() < deadline:
            self._sleep(POLL_SECONDS)
        problem: LabError | None = None
        for service in lost:
            try:
                self._bring_back(scene, service)
            except LabError as error:  # the others come back all the same
                problem = problem or error
        if problem is not None:
            raise problem

    def _bring_back(self, scene: Scene, service: str) -> None:
        state = _state(scene.runtime, service)
        if state is State.HEALTHY:  # it has found back while another one was being started
            return
        if state is State.PAUSED:  # `start` ends what is left of any other
            _kill_frozen(scene.runtime, service)
        scene.runtime.start(service, scene.on_progress)

    def _lost(self, scene: Scene) -> list[str]:
        """Workers that are not well."""
        services = scene.runtime.status().services
        return [s.service for s in services if is_worker(s.service) and s.state is not State.HEALTHY]


def _state(runtime: Runtime, service: str) -> State | None:
    found = runtime.status().service(service)
    return found.state if found is not None else None


def _kill_frozen(runtime: Runtime, service: str) -> None:
    """End a worker that is frozen. One that was thawed, or has ended, meanwhile is left to `start`."""
    try:
        runtime.kill(service)
    except (LabDownError, EngineError):
        if _state(runtime, service) is State.PAUSED:
            raise
