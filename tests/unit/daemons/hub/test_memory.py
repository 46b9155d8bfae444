"""Memory of one person's processes."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, field

import psutil
import pytest

from lab.daemons.hub import memory

Info = namedtuple("Info", ("rss", "shared"))
GIB = 2**30
SERVER = 100


@dataclass(eq=False)
class FakeProcess:
    """One process. `shared` of its GiB are pages of files."""

    pid: int
    gib: float
    shared: float = 0.0
    ended: bool = False
    killed: list[int] = field(default_factory=list)

    def memory_info(self) -> Info:
        if self.ended:
            raise psutil.NoSuchProcess(self.pid)
        return Info(int(self.gib * GIB), int(self.shared * GIB))

    def name(self) -> str:
        return f"python{self.pid}"

    def kill(self) -> None:
        if self.ended:
            raise psutil.NoSuchProcess(self.pid)
        self.killed.append(self.pid)


@pytest.mark.parametrize(
    ("group", "killed"),
    [
        ((FakeProcess(SERVER, 1), FakeProcess(1, 2), FakeProcess(2, 1)), []),
        ((FakeProcess(SERVER, 1), FakeProcess(1, 2), FakeProcess(2, 1.5)), [1]),
        ((FakeProcess(SERVER, 3), FakeProcess(1, 1), FakeProcess(2, 1.5)), [2]),
        ((FakeProcess(SERVER, 5),), []),
        ((FakeProcess(SERVER, 1), FakeProcess(1, 9, shared=8), FakeProcess(2, 2)), []),
        ((FakeProcess(SERVER, 1), FakeProcess(1, 9, shared=8), FakeProcess(2, 2.5)), [2]),
        ((FakeProcess(SERVER, 1), FakeProcess(1, 9, ended=True), FakeProcess(2, 1)), []),
        ((), []),
    ],
    ids=["fits", "largest", "never the server", "nothing but it", "files", "own", "ended", "none"],
)
def test_the_largest_ends_where_all_take_too_much(group: tuple[FakeProcess, ...], killed: list[int]) -> None:
    said = memory.end_largest(group, SERVER, 4 * GIB)  # type: ignore[arg-type]
    assert [pid for process in group for pid in process.killed] == killed
    assert bool(said) == bool(killed)


def test_what_was_done_is_said() -> None:
    group = (FakeProcess(SERVER, 0.5), FakeProcess(7, 4))
    said = memory.end_largest(group, SERVER, 4 * GIB)  # type: ignore[arg-type]
    assert said == "took 4.5 of 4 GiB: ended python7 (7), which had 4.0"


def test_one_that_ended_meanwhile_was_not_ended_by_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = FakeProcess(7, 5)
    monkeypatch.setattr(gone, "name", lambda: (_ for _ in ()).throw(psutil.NoSuchProcess(7)))
    assert memory.end_largest((gone,), SERVER, 4 * GIB) == ""  # type: ignore[arg-type]
    assert memory.descendants(0x7FFFFFFE) == []
