"""Faults of the object store: it is gone, it answers in fits, it refuses the key of the jobs."""

from __future__ import annotations

import threading

from lab.errors import LabError
from lab.faults import Expected, Fault, FaultKind, Parameter, Scene, Scope, Traits, lasting
from lab.host.clock import MONOTONIC, Clock
from lab.topology import State, Struck


class S3Down(Fault):
    """SIGKILL to the object store. Connections are refused until it is back."""

    kind = FaultKind(
        name="s3-down",
        summary="the object store is killed and comes back later",
        scope=Scope.STORE,
        parameters=(lasting("how long the store is down", 10.0),),
        revert="the store is started again, with its objects",
        expected=Expected.STORE_AWAY,
        traits=Traits("was killed"),
    )

    def inject(self, scene: Scene) -> Struck | None:
        return scene.runtime.kill(scene.target)


JOIN_SECONDS = 180.0
"""Deadline for the last freeze or thaw to end: one question to a container engine may take a minute."""


class S3Slow(Fault):
    """Freezes the store and thaws it again in turns: a request that meets a freeze waits for its end.

    It needs nothing but to freeze a service, so every runtime can do it. A thread of this process takes the
    turns: when labctl dies, at most one freeze is left behind.
    """

    kind = FaultKind(
        name="s3-slow",
        summary="the object store is frozen for moments, so that requests take long",
        scope=Scope.STORE,
        parameters=(
            lasting("how long the store is slow", 20.0),
            Parameter("delay", "s", "length of one freeze: what it adds to a request at most", 0.5, 0.1, 15),
            Parameter("share", "%", "part of the time in which the store is frozen", 75.0, 1.0, 95.0),
        ),
        revert="the store is left alone, and thawed",
        expected=Expected.SLOWED,
        traits=Traits("was frozen again and again", delay="delay"),
    )

    def __init__(self, clock: Clock = MONOTONIC, over: threading.Event | None = None) -> None:
        """`over` ends the turns when it is set, and is what they wait on."""
        super().__init__(clock)
        self._over = over or threading.Event()
        self._thread: threading.Thread | None = None
        self._problem: LabError | None = None

    def inject(self, scene: Scene) -> None:
        """Begin to freeze and thaw the store in turn. The first freeze has begun when it returns."""
        scene.runtime.pause(scene.target)
        self._thread = threading.Thread(
            target=self._take_turns, args=(scene,), name="raylab-s3-slow", daemon=True
        )
        self._thread.start()

    def revert(self, scene: Scene) -> None:
        """End the freezes. Raises the error of a freeze or thaw, unless the store is healthy now."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)
        scene.runtime.resume(scene.target)
        scene.start()
        if self._problem is not None and scene.state() is not State.HEALTHY:
            raise self._problem

    def _take_turns(self, scene: Scene) -> None:
        """Thaw and freeze until it is over. The store is frozen when this begins."""
        frozen = scene.parameters["delay"]
        thawed = frozen * (100.0 / scene.parameters["share"] - 1.0)
        try:
            while not self._over.wait(frozen):
                scene.runtime.resume(scene.target)
                if self._over.wait(thawed):
                    return
                scene.runtime.pause(scene.target)
        except LabError as error:
            self._problem = error


class S3CredentialsRevoked(Fault):
    """Disables the training key in the store. labctl uses that key too, and sees nothing meanwhile."""

    kind = FaultKind(
        name="s3-credentials-revoked",
        summary="the object store refuses the training key, as after a key was revoked",
        scope=Scope.STORE,
        parameters=(lasting("how long the key is refused", 10.0),),
        revert="the store accepts the training key again",
        expected=Expected.STORE_AWAY,
        traits=Traits("refused the training key"),
    )

    def inject(self, scene: Scene) -> None:
        scene.runtime.set_training_key(False)

    def revert(self, scene: Scene) -> None:
        scene.start()
        scene.runtime.set_training_key(True)
