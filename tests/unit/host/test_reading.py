"""Files that others have written: never waited for, never taken in without end."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.host.reading import TooLargeError, open_file, parse_json, read_bytes, read_json, read_text
from tests.conftest import ROOT

DEEP = "[" * 200_000


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


SPECIAL: list[tuple[Callable[[Path], None], str]] = [
    (fifo, "a pipe, socket or device"),
    (bound, "a pipe, socket or device"),
    (Path.mkdir, "Is a directory"),
    (lambda path: path.symlink_to("/dev/zero"), "a pipe, socket or device"),
    (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
]


@pytest.mark.parametrize("read", [read_bytes, open_file])
@pytest.mark.parametrize(("make", "why"), SPECIAL)
def test_what_is_no_regular_file_is_refused_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[Path], object],
    make: Callable[[Path], None],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    make(Path("it"))
    with pytest.raises(OSError, match=why):
        read(Path("it"))


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"12345678")
    assert read_bytes(path, 8) == b"12345678"
    with pytest.raises(TooLargeError, match="larger than 7 bytes"):
        read_bytes(path, 7)
    with pytest.raises(TooLargeError):
        open_file(path, 7)


def test_a_sparse_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "it").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(TooLargeError, match="larger than 16 MiB"):
        read_bytes(tmp_path / "it")


def test_an_empty_archive_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "it").touch()
    with pytest.raises(OSError, match="is empty"):
        open_file(tmp_path / "it")


def test_what_a_shell_hands_over_is_read_though_it_is_a_pipe() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"{}")
    os.close(writer)
    try:
        assert read_json(Path(f"/dev/fd/{reader}")) == {}
    finally:
        os.close(reader)


def test_what_is_handed_over_is_no_folder_and_has_an_end() -> None:
    zero, folder = os.open("/dev/zero", os.O_RDONLY), os.open("/", os.O_RDONLY)
    try:
        with pytest.raises(TooLargeError):
            read_bytes(Path(f"/dev/fd/{zero}"), 10)
        with pytest.raises(IsADirectoryError):
            read_bytes(Path(f"/dev/fd/{folder}"))
    finally:
        os.close(zero)
        os.close(folder)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_what_is_no_name_is_an_error_of_the_system(name: str) -> None:
    with pytest.raises(OSError, match="not a file name"):
        read_bytes(Path(name))


def test_text_is_utf_8(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="not text in UTF-8"):
        read_text(tmp_path / "it")


@pytest.mark.parametrize("text", [DEEP, '{"a":' * 200_000, DEEP + "]" * 200_000])
def test_json_that_is_nested_too_deeply_is_no_json(text: str) -> None:
    for document in (text, text.encode()):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(document)


def test_nothing_in_lab_reads_json_past_it() -> None:
    calls = re.compile(r"json\.loads?\(")
    files = [p for p in (ROOT / "lab").rglob("*.py") if "probe" not in p.parts]
    readers = {p.relative_to(ROOT).as_posix() for p in files if calls.search(p.read_text(encoding="utf-8"))}
    assert readers == {"lab/host/reading.py", "lab/host/environment/__init__.py"}
