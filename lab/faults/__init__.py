"""The catalogue of faults. To add one: a file here, an entry in FAULTS, a test, a paragraph in the docs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lab.errors import NotFoundError
from lab.faults.base import Fault, FaultKind, Parameter, RankProcess, Scene, Scope
from lab.faults.kill import Kill
from lab.faults.pause import Pause
from lab.faults.stop import Stop

FAULTS: Mapping[str, Callable[[], Fault]] = {
    "kill": Kill,
    "stop": Stop,
    "pause": Pause,
}


def catalogue() -> tuple[FaultKind, ...]:
    """Every fault there is."""
    return tuple(make().kind for make in FAULTS.values())


def find_fault(name: str) -> Fault:
    """The fault called `name`. Raises NotFoundError that lists the known ones."""
    if name not in FAULTS:
        raise NotFoundError(f"there is no fault {name!r}", f"known: {', '.join(FAULTS)}")
    return FAULTS[name]()


__all__ = [
    "FAULTS",
    "Fault",
    "FaultKind",
    "Parameter",
    "RankProcess",
    "Scene",
    "Scope",
    "catalogue",
    "find_fault",
]
