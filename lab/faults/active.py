"""The faults that last, on disk: what a labctl that died in the middle of one has left behind."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from lab.errors import RefusedError
from lab.host.files import write_private
from lab.host.reading import read_json

FOLDER = "faults"
"""In the lab's folder; a file for each fault that lasts."""


@dataclass(frozen=True)
class Entry:
    """A fault that lasts, or lasted when labctl died. Times are seconds since the epoch."""

    kind: str
    target: str
    job: str
    at: float
    pid: int
    """The labctl that injected it."""
    started: float
    """When that process started: an id alone names nothing."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    memo: Mapping[str, Any] = field(default_factory=dict)
    """What the fault needs to undo itself."""

    @property
    def name(self) -> str:
        """Of its file, without the ending."""
        return f"{int(self.at * 1000)}-{self.kind}-{self.target}"

    @property
    def given_up(self) -> Entry:
        """The same as the fault of nobody: `labctl heal` may undo it although its labctl goes on."""
        return replace(self, pid=0, started=0.0)

    @property
    def outlives_the_lab(self) -> bool:
        """Whether it damaged stored objects (`keys` of the memo): they and their copies survive `down`."""
        return bool(self.memo.get("keys"))


class Journal:
    """The faults that last in one lab, those of every labctl process."""

    def __init__(self, folder: Path, lives: Callable[[int, float], bool] | None = None) -> None:
        """`folder` is the lab's; `lives` says whether a process with this id and start time runs."""
        self._folder = folder / FOLDER
        self._lives = lives or process_lives

    def keep(self, entry: Entry) -> None:
        """Write down that this fault lasts, or what it has to remember by now. Raises SetupError."""
        write_private(self._folder / f"{entry.name}.json", json.dumps(asdict(entry)))

    def drop(self, entry: Entry) -> None:
        """It has been undone."""
        with contextlib.suppress(OSError):
            (self._folder / f"{entry.name}.json").unlink(missing_ok=True)

    def clear(self, *, objects: bool = True) -> None:
        """Nothing of the lab is left that could be undone; without `objects`, only its stored objects are."""
        for path in self._files():
            entry = None if objects else _read(path)
            if entry is None or not entry.outlives_the_lab:
                with contextlib.suppress(OSError):
                    path.unlink()

    def lasting(self) -> tuple[Entry, ...]:
        """Every fault that was begun and not undone, the oldest first."""
        found = [entry for path in self._files() if (entry := _read(path)) is not None]
        return tuple(sorted(found, key=lambda entry: entry.at))

    def left(self) -> tuple[Entry, ...]:
        """Those whose labctl has died or given up, the oldest first: only `labctl heal` will undo them."""
        return tuple(entry for entry in self.lasting() if not self._lives(entry.pid, entry.started))

    def refuse_second(self, target: str) -> None:
        """Raises RefusedError when a fault on `target` lasts, or was left by a labctl that died."""
        left = self.left()
        for entry in self.lasting():
            if entry.target != target:
                continue
            if entry in left:
                raise RefusedError(
                    f"{target} is still under the fault {entry.kind} of a labctl that has ended",
                    "undo it first: labctl heal",
                )
            raise RefusedError(
                f"{target} is under the fault {entry.kind} of another labctl (process {entry.pid})",
                "wait until it has ended",
            )

    def _files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob("[0-9]*.json"))
        except OSError:
            return []


def myself() -> tuple[int, float]:
    """Id and start time of this process."""
    return os.getpid(), psutil.Process().create_time()


def process_lives(pid: int, started: float) -> bool:
    """Whether the process with this id is the one that started then. The clock may have been corrected."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 1.0 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _read(path: Path) -> Entry | None:
    """An entry, or None for a file that is none, or is just being removed."""
    try:
        document = read_json(path)
        return Entry(
            kind=str(document["kind"]),
            target=str(document["target"]),
            job=str(document["job"]),
            at=float(document["at"]),
            pid=int(document["pid"]),
            started=float(document["started"]),
            parameters={str(k): float(v) for k, v in document["parameters"].items()},
            memo=dict(document["memo"]),
        )
    except (OSError, ValueError, ArithmeticError, KeyError, TypeError, AttributeError):
        return None
