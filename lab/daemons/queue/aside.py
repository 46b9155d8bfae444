"""A file of the queues that is damaged is set aside: kept whole, where a person finds it."""

from __future__ import annotations

import calendar
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lab.daemons.queue.store import FILE, DamagedError, StateStore
from lab.errors import StateError
from lab.host.clock import WALL, Clock

PREFIX = "queue-damaged-"
"""Begin of the name of a file that was set aside; the time follows (UTC)."""

STAMP, STAMP_LENGTH = "%Y%m%dT%H%M%S", len("20261125T010203")

T = TypeVar("T")


def open_store(
    folder: Path, begin: Callable[[StateStore], T], say: Callable[[str], None], clock: Clock = WALL
) -> T:
    """What `begin` makes of the file in a folder; a damaged one is set aside, and it gets a new one.

    Raises StateError for another cause, and what `begin` raises.
    """
    store = StateStore(folder, prepare=False)
    try:
        store.prepare()
        return begin(store)
    except DamagedError as error:
        kept = _set_aside(folder, clock())
        store.close()  # not before: SQLite would delete what is left of the journal
        say(f"{error.message}; it is kept as {kept}, and the queues start empty")
    return begin(StateStore(folder))


def _set_aside(folder: Path, now: float) -> Path:
    """Rename the file, with its journal, to what nobody overwrites; returns its new path."""
    name = f"{PREFIX}{time.strftime(STAMP, time.gmtime(now))}"
    number, kept = 1, folder / f"{name}.sqlite"
    while kept.exists():
        number += 1
        kept = folder / f"{name}-{number}.sqlite"
    try:
        for ending in ("-wal", "-shm", ""):
            path = folder / f"{FILE}{ending}"
            if path.exists():
                path.rename(f"{kept}{ending}")
    except OSError as error:
        raise StateError(
            f"the damaged {folder / FILE} cannot be set aside: {error.strerror}", "check the folder's owner"
        ) from error
    return kept


def set_aside(folder: Path) -> tuple[Path, ...]:
    """The damaged files that are kept in a folder, the oldest first."""
    return tuple(sorted(folder.glob(f"{PREFIX}*.sqlite"), key=lambda path: (path.stem, path.name)))


def set_aside_at(folder: Path) -> float:
    """Time at which the queues of a folder began anew last, in seconds since the epoch; 0 if never."""
    kept = set_aside(folder)
    stamp = kept[-1].name.removeprefix(PREFIX)[:STAMP_LENGTH] if kept else ""
    try:
        return float(calendar.timegm(time.strptime(stamp, STAMP)))
    except ValueError:  # renamed by hand
        return 0.0


def note(folder: Path) -> str:
    """A sentence about the damaged files in a folder; empty where there is none."""
    kept = set_aside(folder)
    return f"the queues started empty: the damaged file is kept as {kept[-1]}" if kept else ""
