"""What takes a node's memory or disk, and gives it back."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from raylab_faults import hog, rank
from tests.fakes.host import FakeClock

MIB = 1 << 20
LIMIT = 512 * MIB


class Thing:
    """Full after three takes."""

    def __init__(self) -> None:
        self.taken, self.given = 0, 0

    def take(self) -> bool:
        self.taken += 1
        return self.taken > 3

    def give_back(self) -> None:
        self.given += 1


def run(
    gone: Callable[[FakeClock], bool], enough: Callable[[FakeClock], bool] = lambda _: False
) -> tuple[Thing, FakeClock, int]:
    """Hold until then; returns what was held, the clock, and how often it said that it was full."""
    thing, time, full = Thing(), FakeClock(0.0), []
    hog.hold(
        thing, [1, 2], lambda: enough(time), lambda: full.append(1), time, time.sleep, lambda pid: gone(time)
    )  # fmt: skip
    return thing, time, len(full)


def test_it_is_held_until_the_ranks_are_gone() -> None:
    thing, time, full = run(lambda time: time.now >= 5)
    assert 5 <= time.now < 5.2
    assert (thing.given, full) == (1, 1)


def test_it_is_given_back_when_it_is_told_to_stop() -> None:
    thing, time, _ = run(lambda _: False, enough=lambda time: time.now >= 3)
    assert 3 <= time.now < 3.2
    assert thing.given == 1


def test_it_is_given_back_when_nobody_comes() -> None:
    thing, time, _ = run(lambda _: False)
    assert hog.MAX_SECONDS <= time.now < hog.MAX_SECONDS + 1
    assert thing.given == 1


def test_ranks_that_are_gone_at_once_leave_nothing_taken() -> None:
    thing, _, full = run(lambda _: True)
    assert (thing.taken, thing.given, full) == (0, 1, 0)


def test_one_rank_that_lives_keeps_it_held() -> None:
    thing, time = Thing(), FakeClock(0.0)
    hog.hold(
        thing, [1, 2], lambda: False, lambda: None, time, time.sleep, lambda pid: pid == 1 or time.now >= 9
    )  # fmt: skip
    assert time.now >= 9


def cgroup(root: Path, version: int, limit: int | str = LIMIT, used: int = 0, cache: int = 0) -> Path:
    """The files of a container's memory."""
    names = (
        ("memory.max", "memory.current")
        if version == 2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    folder = root if version == 2 else root / "memory"
    folder.mkdir(exist_ok=True)
    prefix = "" if version == 2 else "total_"
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\n{prefix}inactive_file {cache}\n{prefix}active_file 0\n")
    return root


@pytest.mark.parametrize("version", [1, 2])
def test_memory_is_taken_up_to_its_share_of_the_limit_without_the_page_cache(
    tmp_path: Path, version: int
) -> None:
    memory = hog.Memory(cgroup(tmp_path, version, used=LIMIT, cache=40 * MIB))
    assert memory.used() == LIMIT - 40 * MIB
    assert not memory.take()
    assert sum(map(len, memory._held)) == min(memory.target - memory.used(), hog.CHUNK)
    cgroup(tmp_path, version, used=memory.target)
    assert memory.take()
    memory.give_back()
    assert not memory._held


@pytest.mark.parametrize(("version", "limit"), [(2, "max"), (1, 9223372036854771712)])
def test_memory_without_a_limit_is_not_taken(tmp_path: Path, version: int, limit: int | str) -> None:
    with pytest.raises(OSError, match="has no limit"):
        hog.Memory(cgroup(tmp_path, version, limit))


class Small:
    """A disk of so many bytes."""

    def __init__(self, size: int, error: int = errno.ENOSPC) -> None:
        self.left, self.error = size, error

    def write(self, file: int, data: bytes) -> int:
        if len(data) > self.left:
            raise OSError(self.error, os.strerror(self.error))
        self.left -= len(data)
        return len(data)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_is_filled_to_the_last_byte_and_what_becomes_free_is_taken_too(
    tmp_path: Path, error: int
) -> None:
    small = Small(2 * hog.CHUNK + 12_345, error)
    disk = hog.Disk(tmp_path, small.write)
    while not disk.take():
        pass
    assert small.left == 0
    small.left = 3
    while not disk.take():
        pass
    assert small.left == 0
    disk.give_back()
    assert not list(tmp_path.iterdir())


def test_another_trouble_of_the_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        hog.Disk(tmp_path, Small(0, errno.EIO).write).take()


def test_a_process_that_is_no_rank_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert hog.main(["start", "disk", str(os.getpid())]) == rank.NOT_A_RANK
    assert "not a rank" in json.loads(capsys.readouterr().out)["problem"]


def test_stopping_removes_what_a_process_left_that_has_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hog, "note", lambda what: tmp_path / f"{what}.json")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / hog.FILE).write_text("full")
    (tmp_path / "disk.json").write_text(json.dumps({"pid": os.getpid(), "started": "another process"}))
    assert hog.main(["stop", "disk"]) == 0
    assert hog.main(["stop", "disk"]) == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "argv", [[], ["start", "memory"], ["stop", "disk", "1"], ["start", "cpu", "1"], ["take", "disk", "1"]]
)
def test_a_wrong_command_line_does_nothing(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert hog.main(argv) == 2
    assert "raylab_faults.hog start" in capsys.readouterr().out
