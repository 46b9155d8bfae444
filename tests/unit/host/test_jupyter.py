"""The command `labctl` of JupyterLab's terminals."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

from lab.host.files import ROOT
from lab.host.jupyter import ASIDE, TOOLS, terminals, write_aside, write_labctl


def test_a_terminal_finds_the_labctl_that_started_it(tmp_path: Path) -> None:
    write_labctl(tmp_path / "jupyter")
    write_labctl(tmp_path / "jupyter")
    variables = terminals(tmp_path / "jupyter", "/usr/bin")
    first, rest = variables["PATH"].split(os.pathsep)
    assert (rest, variables["LABCTL_NO_VENV"]) == ("/usr/bin", "1")
    script = Path(first) / "labctl"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert script.read_text() == f'#!/bin/sh\nexec {sys.executable} {ROOT / "labctl.py"} "$@"\n'


def test_what_is_run_aside_has_less_weight_than_its_session_would(tmp_path: Path) -> None:
    write_aside(tmp_path)
    group = Path("/proc/self/autogroup")
    script = f"nice; until ! test -w {group} || grep -q 'nice 10$' {group}; do :; done; echo $0"
    argv = (str(tmp_path / TOOLS / ASIDE), "sh", "-c", script, "two words")
    run = partial(subprocess.run, start_new_session=True, capture_output=True, text=True, timeout=60)
    before = group.read_text() if group.exists() else ""
    done = run(argv, check=True)
    assert done.stdout.split("\n") == [str(min(os.nice(0) + 10, 19)), "two words", ""]
    assert done.stderr == ""
    assert (group.read_text() if group.exists() else "") == before
