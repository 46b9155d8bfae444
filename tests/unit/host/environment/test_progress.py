"""The progress of an installation, as it is shown."""

from __future__ import annotations

import io

import pytest

from lab.host.environment.progress import InstallProgress, Printer


def test_uvs_output_becomes_one_line_with_what_is_done_of_all() -> None:
    on_disk = [10]
    shown = InstallProgress("local", lambda: on_disk[0])
    assert shown.text() == "local: fetching"
    for line in ("Resolved 3 packages in 2ms", "Downloading ray (75.0MiB)", "Downloading torch (0.5GiB)"):
        shown.feed(line)
    assert shown.text() == "local: fetching 0 of 616 MB"
    shown.feed(" Downloaded ray")
    assert shown.text() == "local: fetching 79 of 616 MB  ray"
    shown.feed("Prepared 3 packages in 16s")
    assert shown.text() == "local: installing 0/3"
    on_disk[0] = 12
    assert shown.text() == "local: installing 2/3"
    on_disk[0] = 99
    assert shown.text() == "local: installing 3/3"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_changes_and_goes_away() -> None:
    stream, now = Terminal(), [0.0]
    progress = Printer(stream=stream, clock=lambda: now[0], columns=lambda: 25)
    progress.update("local: fetching 1/2 a-very-long-name")
    now[0] = 3
    progress.update("short")
    progress.line("done")
    first, rest = stream.getvalue().split("\rshort", 1)
    assert first == "\rlocal: fetching 1/2 a-ve"
    assert rest.startswith("  3 s ")
    assert rest.endswith("\rdone\n")


def test_on_a_terminal_a_line_is_broken_between_words() -> None:
    stream = Terminal()
    Printer(stream=stream, columns=lambda: 25).line("installing local: 100 packages, 2.8 GB on disk")
    assert stream.getvalue() == "installing local: 100\n  packages, 2.8 GB on\n  disk\n"


def test_elsewhere_progress_is_a_line_every_ten_seconds() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Printer(stream=stream, clock=lambda: now[0])
    for second in range(25):
        now[0] = second
        progress.update("fetching")
    assert stream.getvalue() == "fetching  10 s\nfetching  20 s\n"


def test_a_listener_gets_the_lines_and_stderr_none(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    Printer(said.append).line("making .venv")
    assert said == ["making .venv"]
    assert capsys.readouterr() == ("", "")
