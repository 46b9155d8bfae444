"""The catalogue of faults: those of the project's extensions, and those of one's own."""

from __future__ import annotations

from collections.abc import Callable

from lab.api.receipt import FaultDocument
from lab.errors import LabError, NotFoundError
from lab.extension import ours
from lab.faults.base import Fault, FaultKind, Scope
from lab.faults.own import defined_in, load_own, modules_of


def _built_in() -> dict[str, Callable[[], Fault]]:
    modules = [module for extension in ours() for name in extension.faults for module in modules_of(name)]
    classes = [c for module in modules for c in defined_in(module) if hasattr(c, "kind")]
    scopes = list(Scope)
    classes.sort(key=lambda fault: (scopes.index(fault.kind.scope), fault.kind.name))
    return {fault.kind.name: fault for fault in classes}


FAULTS = _built_in()
"""The project's own faults by name, in the order of their scopes, then of their names."""


def catalogue() -> tuple[FaultKind, ...]:
    """Return the kinds of all faults, those of one's own last."""
    own = load_own(FAULTS).faults.values()
    return (*(make().kind for make in FAULTS.values()), *(fault.kind for fault in own))


def problems() -> tuple[LabError, ...]:
    """Return why faults of one's own could not be loaded."""
    return tuple(load_own(FAULTS).problems.values())


def find_fault(name: str) -> Fault:
    """Return the fault called `name`.

    Raises NotFoundError that lists the known ones, or the error of the file of that name.
    """
    if name in FAULTS:  # found without running any code of one's own
        return FAULTS[name]()
    own = load_own(FAULTS)
    if name not in own.faults:
        known = f"known: {', '.join((*FAULTS, *own.faults))}"
        raise own.problem_of(name) or NotFoundError(f"there is no fault {name!r}", known)
    return own.faults[name]()


def effect_of(record: FaultDocument) -> str:
    """Return what the fault of a receipt did to its target; earlier labs' receipts do not say it."""
    kind = record.kind
    known = FAULTS[kind]().kind.traits.effect if kind in FAULTS else f"was hit by {kind!r}"
    return record.effect or known
