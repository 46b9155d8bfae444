"""What every fault is: something done to a service on purpose, with a start, an end and a revert."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from lab.runtime.base import Runtime


@dataclass(frozen=True)
class FaultKind:
    """A fault in the catalogue, for a person to choose from."""

    name: str
    summary: str
    parameters: tuple[str, ...]
    revert: str


class Fault(ABC):
    """One kind of fault. It knows only the runtime interface, so it works on every runtime alike."""

    kind: FaultKind
    default_duration: float | None = None
    """Seconds until the revert when the user names none; None: once the job no longer needs the fault to last
    (see lab.recovery)."""

    @abstractmethod
    def inject(self, runtime: Runtime, service: str) -> None:
        """Do it. Returns as soon as it is done; the effect lasts until `revert`."""

    @abstractmethod
    def revert(self, runtime: Runtime, service: str) -> None:
        """Undo it: afterwards the service is healthy again. May be called twice, and after a failed `inject`.

        Raises ServiceError, WaitTimeoutError.
        """
