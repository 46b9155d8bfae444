"""The end of a lab, with those labs of people's own that have its workers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from lab.errors import StateError
from lab.runtime import leases, lent, select
from lab.runtime.active_faults import ActiveFaults
from lab.runtime.base import OnProgress, Runtime, host_of, ignore_progress
from lab.runtime.lent import Loan
from lab.topology import Progress, State


def refuse_down(runtime: Runtime, *, volumes: bool = False) -> None:
    """Refuse what `down` refuses, with nothing changed. Raises RefusedError, EngineError."""
    runtime.refuse_down(volumes=volumes)
    for loan in _lent(runtime):
        refuse_down(_own_lab(runtime, loan))


def down(runtime: Runtime, *, volumes: bool, on_progress: OnProgress) -> tuple[str, ...]:
    """Stop a lab, first those that have its workers, unless one of them is refused; see Lab.down."""
    refuse_down(runtime, volumes=volumes)
    lending = _lent(runtime)
    for loan in lending:
        down(_own_lab(runtime, loan), volumes=False, on_progress=ignore_progress)
        on_progress(Progress(loan.lab, State.EXITED, f"{loan.person}'s own lab: stopped, objects kept"))
    if lending:
        ended = [replace(loan, workers=(), workload="") for loan in lent.read(runtime.folder())]
        lent.write(runtime.folder(), ended)
    stopped = runtime.down(volumes=volumes, on_progress=on_progress)
    leases.free(runtime.folder())
    ActiveFaults(runtime.folder()).clear(objects=volumes)
    return stopped


def _lent(runtime: Runtime) -> Sequence[Loan]:
    """The loans for which it lacks workers; none is known where their list cannot be read."""
    with contextlib.suppress(StateError):
        return [loan for loan in lent.read(runtime.folder()) if loan.workers]
    return ()


def _own_lab(runtime: Runtime, loan: Loan) -> Runtime:
    return host_of(select.choose(runtime.kind, select.lab_name(loan.lab)).view, "take the lab down", "down")
