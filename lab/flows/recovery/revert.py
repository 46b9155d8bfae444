"""Reverts a fault in its own thread, even if the caller is interrupted, and again if that fails."""

from __future__ import annotations

from collections.abc import Callable

from lab.errors import LabDownError, LabError, message_of
from lab.evidence.receipt.model import NOT_REVERTED
from lab.faults import Fault, Scene
from lab.host.clock import Clock
from lab.host.interrupts import Background, held_back
from lab.topology import Progress, State

LOOK_SECONDS = 0.1
"""Interval between looks for an interrupt while the end of a revert is waited for."""

TRIES = 3
"""Reverts of a fault until it is left: on a machine that is too busy for a node to start, the training that
is part of its load ends meanwhile. Each has the deadlines of what it does, such as the start of a node."""


class Revert:
    """Runs the revert of a fault, while its caller goes on watching, and keeps its last error."""

    def __init__(self, fault: Fault, scene: Scene, clock: Clock) -> None:
        self.done_at: float | None = None
        self.error: Exception | None = None
        self._fault, self._scene, self._clock = fault, scene, clock
        self._task: Background | None = None
        self._left = False

    @property
    def begun(self) -> bool:
        """True once it was started."""
        return self._task is not None

    @property
    def ended(self) -> bool:
        """True once it has succeeded or failed."""
        return self.done_at is not None or self.error is not None

    @property
    def problems(self) -> tuple[str, ...]:
        """The reason of its failure, for a receipt."""
        if self.error is None:
            return ()
        return (f"{NOT_REVERTED}: {message_of(self.error)}",)

    @property
    def bug(self) -> Exception | None:
        """The error that it raised, if that is no LabError."""
        return None if isinstance(self.error, LabError) else self.error

    def begin(self) -> Background:
        """Start it, once."""
        if self._task is None:
            with held_back():  # or an interrupt could lose the thread that has just begun
                self._task = Background(self._run, "raylab-revert")
        return self._task

    def finish(self, on_interrupt: Callable[[int], None], interrupts: int = 0) -> None:
        """Start it, if that has not been done, and wait for its end.

        An interrupt is held back until then; a second one ends the wait. `on_interrupt` is called with the
        number of those that have come, of which the caller has had `interrupts` before.
        """
        with held_back() as arrived:
            task, known = self.begin(), 0
            while not task.wait(LOOK_SECONDS):
                count = interrupts + len(arrived)
                if count > known:
                    on_interrupt(count)
                if count > 1:
                    self._left = True
                    return
                known = count

    def wait(self, seconds: float) -> None:
        """Wait so long, while it goes on at most until its end."""
        if self._task is not None and not self._task.over:
            self._task.wait(seconds)
        else:
            self._clock.sleep(seconds)

    def check(self) -> None:
        """Raise the error of the revert, if there was one."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        for number in range(2, TRIES + 2):
            try:
                self._fault.revert(self._scene)
                self.done_at = self._clock()
            except Exception as error:  # raised or reported in the thread that waits
                if number <= TRIES and not self._left and _may_help(error):
                    why = message_of(error).partition("\n")[0].partition(". ")[0]
                    what = f"restored again (try {number} of {TRIES}): {why}"
                    self._scene.on_progress(Progress(self._scene.target, State.STARTING, what))
                    continue
                self.error = error
            return


def _may_help(error: Exception) -> bool:
    """Whether another try may end otherwise: with a lab that is up, and no bug."""
    return isinstance(error, LabError) and not isinstance(error, LabDownError)
