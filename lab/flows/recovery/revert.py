"""Reverts a fault exactly once, in its own thread, even if the caller is interrupted."""

from __future__ import annotations

import threading

from lab.errors import LabError, message_of
from lab.evidence.receipt.model import NOT_REVERTED
from lab.faults import Fault, Scene
from lab.host.clock import Clock


class Revert:
    """Runs the revert of a fault once, while its caller goes on watching, and keeps its error."""

    def __init__(self, fault: Fault, scene: Scene, clock: Clock) -> None:
        self.done_at: float | None = None
        self.error: Exception | None = None
        self._fault, self._scene, self._clock = fault, scene, clock
        self._thread: threading.Thread | None = None

    @property
    def begun(self) -> bool:
        """True once it was started."""
        return self._thread is not None

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

    def begin(self) -> None:
        """Start it, once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="raylab-revert", daemon=True)
            self._thread.start()

    def finish(self) -> None:
        """Start it, if that has not been done, and wait for its end. An interrupt is held back until then."""
        self.begin()
        assert self._thread is not None
        interrupt: KeyboardInterrupt | None = None
        while self._thread.is_alive():
            try:
                self._thread.join()
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def wait(self, seconds: float) -> None:
        """Wait so long, while it goes on at most until its end."""
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(seconds)
        else:
            self._clock.sleep(seconds)

    def check(self) -> None:
        """Raise the error of the revert, if there was one."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._fault.revert(self._scene)
            self.done_at = self._clock()
        except Exception as error:  # raised or reported in the thread that waits
            self.error = error
