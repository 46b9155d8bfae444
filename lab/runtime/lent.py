"""Workers that a class lends to labs of people's own: while they are lent, they are no services of the class.

A file beside the list of the people says which. It is changed under the lock of that list alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.api.light import restore
from lab.errors import StateError
from lab.host.reading import SMALL, read_json
from lab.people.registry import FOLDER, write_owned

FILE = "labs.json"
SCHEMA = "raylab-own-labs/1"


@dataclass(frozen=True)
class Loan:
    """A person's own lab."""

    person: str
    lab: str
    workers: tuple[str, ...] = ()
    """Services of the class that it has; empty for a lab that has ended, whose objects are kept."""
    workload: str = ""
    """Holds their quota in the queues of the class."""


@dataclass(frozen=True)
class _Document:
    schema: str
    labs: tuple[Loan, ...]


def read(folder: Path) -> tuple[Loan, ...]:
    """The loans of the lab in a folder, in the order of names. Raises StateError for a damaged file."""
    path = folder / FOLDER / FILE
    try:
        document = restore(_Document, read_json(path, SMALL))
        if document.schema != SCHEMA:
            raise ValueError(f"its schema is {document.schema}, not {SCHEMA}")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        message = f"the list of the class's own labs in {path} cannot be read: {error}"
        raise StateError(message, "restore that file") from error
    return document.labs


def write(folder: Path, loans: Iterable[Loan]) -> None:
    """Replace them. Raises SetupError."""
    labs = [asdict(loan) for loan in sorted(loans, key=lambda loan: loan.person)]
    write_owned(folder / FOLDER / FILE, {"schema": SCHEMA, "labs": labs})


def without(folder: Path, services: Sequence[str]) -> tuple[str, ...]:
    """Those of these services that are not lent."""
    away = {worker for loan in read(folder) for worker in loan.workers}
    return tuple(service for service in services if service not in away)


def notes(folder: Path) -> tuple[str, ...]:
    """Facts that a person should know of a lab which lends workers."""
    return tuple(
        f"lent to {loan.person}'s own lab {loan.lab}: {', '.join(loan.workers)}"
        for loan in read(folder)
        if loan.workers
    )
