"""The end of a lab: what refuses it, and what is given back and forgotten with it."""

from __future__ import annotations

from lab.runtime import leases
from lab.runtime.active_faults import ActiveFaults
from lab.runtime.base import OnProgress, Runtime


def refuse_down(runtime: Runtime, *, volumes: bool) -> None:
    """Refuse what `down` refuses, with nothing changed. Raises RefusedError, EngineError."""
    runtime.refuse_down(volumes=volumes)


def down(runtime: Runtime, *, volumes: bool, on_progress: OnProgress) -> tuple[str, ...]:
    """Stop a lab; see Lab.down."""
    refuse_down(runtime, volumes=volumes)
    stopped = runtime.down(volumes=volumes, on_progress=on_progress)
    leases.free(runtime.folder())
    ActiveFaults(runtime.folder()).clear(objects=volumes)
    return stopped
