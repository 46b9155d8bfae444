"""Ways in which a lab's state file is damaged or lost, the same for every runtime that keeps one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Set
from pathlib import Path

import pytest

from lab.errors import LabDownError, StateError
from lab.runtime.base import Runtime
from lab.services import HEAD, worker
from lab.topology import LabSpec

Damage = Callable[[Path], object]


def damages(other_schema: str) -> dict[str, tuple[Damage, str]]:
    """Name -> what it does to the file, and what labctl says of it. `other_schema` is of another labctl."""

    def another_version(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": other_schema}))

    return {
        "truncated": (lambda path: path.write_bytes(path.read_bytes()[:100]), "is damaged (JSONDecodeError"),
        "scrambled": (lambda path: path.write_bytes(path.read_bytes()[::-1]), "is damaged (JSONDecodeError"),
        "binary": (lambda path: path.write_bytes(b"\xff\xfe\x00" * 99), "is damaged (ValueError: not text"),
        "nested": (lambda path: path.write_text("[" * 100_000), "is damaged (ValueError: nested"),
        "empty": (lambda path: path.write_bytes(b""), "is damaged (JSONDecodeError"),
        "another version": (another_version, f"is damaged (ValueError: schema {other_schema!r} is not"),
        "deleted": (lambda path: path.unlink(), "is missing"),
        "the whole folder": (lambda path: shutil.rmtree(path.parent), "is missing"),
    }


def check_refused(runtime: Runtime, spec: LabSpec, file: Path, said: str, alive: Set[str]) -> None:
    """Every call on a lab whose state is lost names the file, what is wrong, and what runs."""
    calls: tuple[Callable[[], object], ...] = (
        runtime.status,
        runtime.spec,
        runtime.endpoints,
        lambda: runtime.up(spec),
        lambda: list(runtime.logs(HEAD)),
        lambda: runtime.kill(worker(0)),
        lambda: runtime.start(worker(0)),
    )
    for call in calls:
        with pytest.raises(StateError) as caught:
            call()
        assert caught.value.message.startswith(f"the state file {file} {said}")
        assert caught.value.message.endswith(f"but lab {runtime.lab} runs: {', '.join(sorted(alive))}")
        assert caught.value.hint.startswith(f"`labctl down --lab {runtime.lab}` stops them and keeps")


def check_down(runtime: Runtime, spec: LabSpec, damage: str, said: str) -> None:
    """A lab of which nothing runs is down whatever became of its state, and `up` starts it anew."""
    status = runtime.status()
    assert (status.up, status.services) == (False, ())
    notes = [said, "nothing of the lab runs; `labctl up` starts it"] if damage != "deleted" else []
    assert all(note in "".join(status.notes) for note in notes)
    assert bool(status.notes) is bool(notes)
    with pytest.raises(LabDownError):
        runtime.spec()
    assert runtime.up(spec).healthy
