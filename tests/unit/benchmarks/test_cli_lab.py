"""Labs that benchmarks use by the command line alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks import cli_lab
from benchmarks.cli_lab import clean, nodes_alive, why
from benchmarks.compare import LostError

UP = """plan: simulated GPUs
    0.1 s  minio           starting
    2.1 s  ray-head        healthy
    9.0 s  ray-worker-0    running   joins the cluster
   12.0 s  ray-worker-0    healthy
   15.5 s  jupyter         healthy
"""


def seen(text: str) -> list[tuple[float, str]]:
    return [(float(number), line) for number, line in enumerate(text.splitlines(), 1)]


def test_the_nodes_are_alive_when_the_last_of_them_is_healthy() -> None:
    assert nodes_alive(seen(UP)) == 5.0
    assert nodes_alive(seen(UP + "   18.0 s  ray-worker-1    healthy\n")) == 7.0


def test_an_output_that_does_not_say_it_gives_no_figure() -> None:
    assert nodes_alive(seen("starting\ndone\n")) is None


def test_variables_that_would_choose_another_lab_are_left_out() -> None:
    here = {"RAYLAB_NAME": "mine", "RAY_ADDRESS": "1.2.3.4", "PATH": "/bin", "HOME": "/root"}
    assert clean(here) == {"PATH": "/bin", "HOME": "/root"}


@pytest.mark.parametrize(
    ("code", "lines", "passed", "said"),
    [
        (
            7,
            ["    0.1 s  minio  starting", "error: no memory", "  -> free some"],
            3.0,
            "exit code 7: no memory",
        ),
        (1, ["Traceback", "ValueError: x", ""], 3.0, "exit code 1: ValueError: x"),
        (1, [], 3.0, "exit code 1"),
        (130, ["interrupted"], 60.0, "took longer than 60 s"),
    ],
)
def test_why_a_command_failed_is_one_line(code: int, lines: list[str], passed: float, said: str) -> None:
    assert why(code, lines, passed, 60.0) == said


def test_a_command_is_timed_and_its_json_read(tmp_path: Path) -> None:
    script = "import sys; print('{\"a\": 1}'); print('one', file=sys.stderr); sys.exit(int(sys.argv[1]))"
    lines: list[tuple[float, str]] = []
    seconds, document = cli_lab.call([sys.executable, "-c", script, "0"], tmp_path, os.environ, seen=lines)
    assert document == {"a": 1}
    assert [line for _, line in lines] == ["one"]
    assert seconds >= lines[0][0] >= 0
    with pytest.raises(LostError, match="exit code 3: one"):
        cli_lab.call([sys.executable, "-c", script, "3"], tmp_path, os.environ)


def test_a_command_may_clean_up_before_an_interrupt_goes_on(tmp_path: Path) -> None:
    class Interrupting(list[tuple[float, str]]):
        def append(self, line: tuple[float, str]) -> None:
            raise KeyboardInterrupt

    script = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("begun", file=sys.stderr, flush=True)
    signal.pause()
except KeyboardInterrupt:
    pathlib.Path("clean").touch()
"""
    with pytest.raises(KeyboardInterrupt):
        cli_lab.call([sys.executable, "-c", script], tmp_path, os.environ, seen=Interrupting())
    assert (tmp_path / "clean").exists()
