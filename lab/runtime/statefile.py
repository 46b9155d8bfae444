"""The state file of a lab between two commands, and whether the lab fits the settings asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lab.api.light import restore
from lab.errors import RefusedError, StateError, UnsupportedError
from lab.host.files import write_private
from lab.host.reading import parse_json, read_bytes
from lab.topology import LabSpec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")

_HINT = "`labctl down` stops what it finds and removes it; stored objects are kept"

COMPOSE_FILE = "compose.json"
"""State of a lab that was started in containers and not taken down since, in the lab's folder."""

LOCAL_FILE = "state.json"
"""The same of a lab of plain processes."""


def load(path: Path, schema: str, kind: type[T]) -> T | None:
    """The state in a file, a dataclass `kind`, or None when there is none.

    Raises StateError when it cannot be read, or was written by a labctl with another `schema`.
    """
    try:
        data = read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateError(f"the state file {path} cannot be read ({error.strerror})", _HINT) from error
    try:
        document = parse_json(data)
        written_by = document.get("schema") if isinstance(document, dict) else None
        if written_by != schema:
            raise ValueError(f"schema {written_by!r} is not {schema!r}")
        return restore(kind, document)
    except ValueError as error:
        why = f"{type(error).__name__}: {error}"
        raise StateError(f"the state file {path} is damaged ({why})", _HINT) from error


def written(path: Path) -> tuple[int, int] | None:
    """What changes whenever the file is written anew; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def save(path: Path, schema: str, state: DataclassInstance) -> None:
    """Replace the file by one with this state, a dataclass, in one step."""
    write_private(path, json.dumps({"schema": schema, **asdict(state)}, indent=1))


def find(
    path: Path, load: Callable[[], T | None], lab: str, running: Callable[[], Iterable[str]]
) -> tuple[T | None, tuple[str, ...]]:
    """The state of a lab that `load` reads from `path`, and notes about it.

    None where there is no state, or a damaged one, and nothing of the lab runs either: then it is down.
    `running` looks for services that run, and is asked only where there is no state.

    Raises StateError when there are some: nobody knows their ports and settings any more.
    """
    problem = ""
    try:
        current = load()
    except StateError as error:
        current, problem = None, error.message
    if current is not None:
        return current, ()
    services = sorted(running())
    if services:
        raise StateError(
            f"{problem or f'the state file {path} is missing'}, but lab {lab} runs: {', '.join(services)}",
            f"`labctl down --lab {lab}` stops them and keeps the stored objects; then `labctl up` again",
        )
    return None, (f"{problem}; nothing of the lab runs; `labctl up` starts it",) if problem else ()


def check_same(
    current: LabSpec,
    ports: Mapping[str, int],
    asked: LabSpec,
    runs_none: Callable[[str], UnsupportedError],
) -> None:
    """Refuse a lab that is up and is not what is asked for. Raises RefusedError.

    Of a port that it does not have, `runs_none` makes the error.
    """
    name = current.name
    if unlike := current.unlike(asked):
        raise RefusedError(
            f"lab {name} is up with other settings ({current.settings}), not with {unlike}",
            f"to keep them, leave these options out; or `labctl down`, then start it with {asked.settings}",
        )
    for port, wanted in asked.ports:
        used = ports.get(port)
        if used is None:
            raise runs_none(port)
        if used != wanted:
            raise RefusedError(
                f"lab {name} is up with {port} on port {used}, not on {wanted}",
                f"keep it, or `labctl down` first to start it with --port {port}={wanted}",
            )
