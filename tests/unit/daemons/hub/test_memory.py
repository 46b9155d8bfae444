"""Memory of one person's processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil
import pytest

from lab.daemons.hub import accounts, memory

Info = namedtuple("Info", ("rss", "shared"))
GIB = 2**30
SERVER = 100


@dataclass(eq=False)
class FakeProcess:
    """One process. `shared` of its GiB are pages of files, `common` what it has in common with others."""

    pid: int
    gib: float
    shared: float = 0.0
    common: float = 0.0
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


def shares(group: Sequence[FakeProcess]) -> dict[int, int]:
    return {p.pid: int((p.gib - p.shared - p.common) * GIB) for p in group if not p.ended}


def end_largest(group: Sequence[FakeProcess], most: int = 4 * GIB) -> str:
    return memory.end_largest(group, SERVER, most, shares)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("group", "killed"),
    [
        ((FakeProcess(SERVER, 1), FakeProcess(1, 2), FakeProcess(2, 1)), []),
        ((FakeProcess(SERVER, 1), FakeProcess(1, 2), FakeProcess(2, 1.5)), [1]),
        ((FakeProcess(SERVER, 3), FakeProcess(1, 1), FakeProcess(2, 1.5)), [2]),
        ((FakeProcess(SERVER, 1), FakeProcess(1, 9, shared=8), FakeProcess(2, 2)), []),
        ((FakeProcess(SERVER, 1), FakeProcess(1, 9, shared=8), FakeProcess(2, 2.5)), [2]),
        ((FakeProcess(SERVER, 1), *(FakeProcess(n, 2, common=1.9) for n in range(20))), []),
        ((FakeProcess(SERVER, 1), FakeProcess(1, 9, ended=True), FakeProcess(2, 1)), []),
        ((), []),
    ],
    ids=["fits", "largest", "never the server", "files", "own", "forks", "ended", "none"],
)
def test_the_largest_ends_where_all_take_too_much(group: tuple[FakeProcess, ...], killed: list[int]) -> None:
    said = end_largest(group)
    assert [pid for process in group for pid in process.killed] == killed
    assert bool(said) == bool(killed)


def test_what_was_done_is_said() -> None:
    group = (FakeProcess(SERVER, 0.5), FakeProcess(7, 4))
    said = end_largest(group)
    assert said == "took 4.5 of 4 GiB: ended python7 (7), which had 4.0"


def test_one_that_ended_meanwhile_was_not_ended_by_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = FakeProcess(7, 5)
    monkeypatch.setattr(gone, "name", lambda: (_ for _ in ()).throw(psutil.NoSuchProcess(7)))
    assert end_largest((gone,)) == ""


def test_a_process_tells_the_sizes_of_those_that_live() -> None:
    argv = (sys.executable, "-m", "lab.daemons.hub.memory", str(os.getpid()), str(0x7FFFFFFE))
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    sizes = json.loads(said.stdout)
    assert list(sizes) == [str(os.getpid())]
    assert sizes[str(os.getpid())] > 1_000_000


@pytest.mark.parametrize("others", [(), (FakeProcess(1, 1), FakeProcess(2, 3))])
def test_where_the_server_alone_takes_too_much_nothing_ends(others: tuple[FakeProcess, ...]) -> None:
    said = end_largest((FakeProcess(SERVER, 4.5), *others))
    assert said == "takes more than 4 GiB in the server alone, which is not ended"
    assert [process for process in others if process.killed] == []


@pytest.mark.parametrize(
    ("answer", "sizes"),
    [
        ((0, json.dumps({SERVER: GIB, 7: 2 * GIB})), {SERVER: GIB, 7: 2 * GIB}),
        ((0, json.dumps({SERVER: GIB})), {SERVER: GIB, 7: 4 * GIB}),
        ((None, ""), {SERVER: 2 * GIB, 7: 4 * GIB}),
        ((-9, '{"100": 1'), {SERVER: 2 * GIB, 7: 4 * GIB}),
        ((0, "[]"), {SERVER: 2 * GIB, 7: 4 * GIB}),
        (OSError("no process is left"), {SERVER: 2 * GIB, 7: 4 * GIB}),
    ],
    ids=["all", "one", "late", "killed", "no sizes", "not started"],
)
def test_what_is_not_told_counts_without_its_files(
    monkeypatch: pytest.MonkeyPatch, answer: object, sizes: dict[int, int]
) -> None:
    def run_as(*_: object) -> object:
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(accounts, "run_as", run_as)
    group = (FakeProcess(SERVER, 2), FakeProcess(7, 5, shared=1))
    assert memory.shares_as(20_000, group) == sizes  # type: ignore[arg-type]
