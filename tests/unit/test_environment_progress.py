"""How an installation is followed, and the process that does it."""

from __future__ import annotations

import io
import os
import sys

import pytest

from lab.environment.process import run_process
from lab.environment.progress import PipProgress, Progress


def test_pips_output_becomes_one_line_with_packages_done_of_all() -> None:
    on_disk = [10]
    shown = PipProgress("local", "a==1 ; x\na==2 ; y\nb-c==2\nd==1 ; z\n", lambda: on_disk[0])
    for line in (
        "Ignoring a: markers 'x' don't match your environment",
        "Ignoring d: markers 'sys_platform == \"win32\"' don't match your environment",
        "Collecting a==1 (from -r local.txt (line 1))",
        "  Downloading a-1-py3-none-any.whl (526.6 MB)",
    ):
        shown.feed(line)
    assert shown.text() == "local: fetching 1/2  a-1 (526.6 MB)"
    shown.feed("Processing /wheels/B_c-2-py3-none-any.whl (from -r local.txt (line 2))")
    assert shown.text() == "local: fetching 2/2  B_c"
    shown.feed("Collecting nvidia-nccl-cu13==2 (from torch)")
    assert shown.text() == "local: fetching 3/3  nvidia-nccl-cu13"
    shown.feed("Installing collected packages: nvidia-nccl-cu13, b-c, a")
    assert shown.text() == "local: installing 0/3  nvidia-nccl-cu13"
    on_disk[0] = 12
    assert shown.text() == "local: installing 2/3  a"
    on_disk[0] = 99
    assert shown.text() == "local: installing 3/3  a"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_changes_and_goes_away() -> None:
    stream, now = Terminal(), [0.0]
    progress = Progress(stream=stream, clock=lambda: now[0], columns=lambda: 25)
    progress.update("local: fetching 1/2 a-very-long-name")
    now[0] = 3
    progress.update("short")
    progress.line("done")
    first, rest = stream.getvalue().split("\rshort", 1)
    assert first == "\rlocal: fetching 1/2 a-ve"
    assert rest.startswith("  3 s ")
    assert rest.endswith("\rdone\n")


def test_elsewhere_progress_is_a_line_every_ten_seconds() -> None:
    stream, now = io.StringIO(), [0.0]
    progress = Progress(stream=stream, clock=lambda: now[0])
    for second in range(25):
        now[0] = second
        progress.update("fetching")
    assert stream.getvalue() == "fetching  10 s\nfetching  20 s\n"


def test_a_listener_gets_the_lines_and_stderr_none(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    Progress(said.append).line("making .venv")
    assert said == ["making .venv"]
    assert capsys.readouterr() == ("", "")


def test_a_real_process_is_read_line_by_line() -> None:
    lines: list[str] = []
    code = run_process(
        [sys.executable, "-c", "import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)"],
        {"PYTHONUNBUFFERED": "1"},
        lines.append,
        lambda: None,
    )
    assert (code, lines) == (3, ["a", "b"])


def test_a_process_is_ended_when_its_reader_is_interrupted() -> None:
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    endless = "import os, threading; print(os.getpid(), flush=True); threading.Event().wait()"
    with pytest.raises(KeyboardInterrupt):
        run_process([sys.executable, "-c", endless], {}, interrupt, lambda: None)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
