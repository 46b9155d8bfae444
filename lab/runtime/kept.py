"""What a runtime keeps of a lab between two commands: its state file, and whether it fits what is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from lab.errors import RefusedError, ServiceError, UnsupportedError, UsageError
from lab.reading import parse_json, read_bytes
from lab.topology import LabSpec

T = TypeVar("T")

COMPOSE_FILE = "compose.json"
"""State of a lab that was started in containers and not taken down since, in the lab's folder."""


def load(path: Path, decode: Callable[[Any], T]) -> T | None:
    """The state in a file, or None when there is none. Raises ServiceError when it cannot be read."""
    try:
        data = read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ServiceError(f"cannot read {path}: {error.strerror}") from error
    try:
        return decode(parse_json(data))
    except (ValueError, ArithmeticError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise ServiceError(
            f"the state file {path} is damaged ({type(error).__name__}: {error})",
            "`labctl down` stops what it finds and removes it; stored objects are kept",
        ) from error


def check_same(
    current: LabSpec,
    ports: Mapping[str, int],
    asked: LabSpec,
    runs_none: Callable[[str], UnsupportedError],
) -> None:
    """Raises RefusedError when a lab that is up is not what is asked for.

    Of a port that it does not have, `runs_none` makes the error.
    """
    name = current.name
    if not current.same_lab(asked):
        raise RefusedError(
            f"lab {name} is up with other settings ({current.settings})",
            f"keep them, or `labctl down` first to start it with {asked.settings}",
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
