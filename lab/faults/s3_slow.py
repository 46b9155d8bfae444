"""`s3-slow`: the object store answers in fits, as under a slow disk or a crowded network."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lab.errors import LabError
from lab.evidence.receipt.expected import Expected
from lab.faults.base import Fault, FaultKind, Parameter, Scene, Scope, lasting
from lab.topology import State

JOIN_SECONDS = 180.0
"""Deadline for the last freeze or thaw to end: one question to a container engine may take a minute."""

Wait = Callable[[float], bool]
"""Waits that many seconds; whether it is all over."""


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
    )

    def __init__(self, stop: threading.Event | None = None, wait: Wait | None = None) -> None:
        """`wait` is by default that of `stop`, which ends the turns when it is set."""
        self._stop = stop or threading.Event()
        self._wait = wait or self._stop.wait
        self._thread: threading.Thread | None = None
        self._problem: LabError | None = None

    def inject(self, scene: Scene) -> None:
        """See Fault.inject. The first freeze has begun when it returns."""
        scene.runtime.pause(scene.target)
        self._thread = threading.Thread(
            target=self._take_turns, args=(scene,), name="raylab-s3-slow", daemon=True
        )
        self._thread.start()

    def revert(self, scene: Scene) -> None:
        """See Fault.revert. Raises what a freeze or thaw raised, unless the store is healthy all the same."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)
        scene.runtime.resume(scene.target)
        scene.runtime.start(scene.target, scene.on_progress)
        status = scene.runtime.status().service(scene.target)
        if self._problem is not None and (status is None or status.state is not State.HEALTHY):
            raise self._problem

    def _take_turns(self, scene: Scene) -> None:
        """Thaw and freeze until it is over. The store is frozen when this begins."""
        frozen = scene.parameters["delay"]
        thawed = frozen * (100.0 / scene.parameters["share"] - 1.0)
        try:
            while not self._wait(frozen):
                scene.runtime.resume(scene.target)
                if self._wait(thawed):
                    return
                scene.runtime.pause(scene.target)
        except LabError as error:
            self._problem = error
