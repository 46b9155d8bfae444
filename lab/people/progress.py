"""The lessons that people of a class have passed, by reports that were handed in and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.api.base import plain
from lab.api.light import restore
from lab.errors import StateError
from lab.host.reading import read_json
from lab.people.registry import write_owned

FILE = "progress.json"
"""The file beside the list of people."""

SCHEMA = "raylab-progress/1"

HINT = "`labctl class collect FOLDER` writes it again"

PASSED, CLAIMED, FAILED = "passed", "claimed", "failed"


@dataclass(frozen=True)
class Standing:
    """One lesson of a person."""

    lesson: int
    state: str
    """`passed`; `claimed` where the lab has no trace of what its report says; or `failed`."""
    at: float
    """Time at which its notebook checked it, seconds since the epoch."""
    reason: str = ""


@dataclass(frozen=True)
class Progress:
    """The lessons of a class."""

    schema: str = SCHEMA
    collected_at: float = 0.0
    lessons: tuple[int, ...] = ()
    """Numbers of all lessons that there are."""
    people: Mapping[str, tuple[Standing, ...]] = field(default_factory=dict)


def read_progress(folder: Path) -> Progress:
    """The progress kept beside the list of people; empty where none was collected. Raises StateError."""
    path = folder / FILE
    try:
        progress = restore(Progress, read_json(path))
    except FileNotFoundError:
        return Progress()
    except (OSError, ValueError) as error:
        raise StateError(f"{path} cannot be read: {error}", HINT) from error
    if progress.schema != SCHEMA:
        raise StateError(f"the schema of {path} is not {SCHEMA}", HINT)
    return progress


def write_progress(folder: Path, progress: Progress) -> None:
    """Keep it. Raises SetupError."""
    write_owned(folder / FILE, plain(progress))
