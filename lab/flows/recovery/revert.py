"""The revert of a fault, beside the watching, once, and whatever else happens."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lab.errors import LabError
from lab.evidence.receipt.model import NOT_REVERTED
from lab.faults import Fault, Scene


class Revert:
    """Runs the fault's revert once, beside the watching, and keeps what it raised."""

    def __init__(self, fault: Fault, scene: Scene, clock: Callable[[], float]) -> None:
        self.done_at: float | None = None
        self.error: Exception | None = None
        self._fault, self._scene, self._clock = fault, scene, clock
        self._thread: threading.Thread | None = None

    @property
    def begun(self) -> bool:
        """Whether it was started."""
        return self._thread is not None

    @property
    def ended(self) -> bool:
        """Whether it was carried out, or has failed."""
        return self.done_at is not None or self.error is not None

    @property
    def problems(self) -> tuple[str, ...]:
        """Why it failed, for a receipt."""
        if self.error is None:
            return ()
        why = self.error.message if isinstance(self.error, LabError) else repr(self.error)
        return (f"{NOT_REVERTED}: {why}",)

    @property
    def bug(self) -> Exception | None:
        """What it raised and nobody thought of."""
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

    def check(self) -> None:
        """Raises what the revert raised."""
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self._fault.revert(self._scene)
            self.done_at = self._clock()
        except Exception as error:  # raised or reported in the thread that waits
            self.error = error
