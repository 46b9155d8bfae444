"""The command `labctl` of JupyterLab's terminals."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from lab.host.files import ROOT
from lab.host.jupyter import terminals, write_labctl


def test_a_terminal_finds_the_labctl_that_started_it(tmp_path: Path) -> None:
    write_labctl(tmp_path / "jupyter")
    write_labctl(tmp_path / "jupyter")
    variables = terminals(tmp_path / "jupyter", "/usr/bin")
    first, rest = variables["PATH"].split(os.pathsep)
    assert (rest, variables["LABCTL_NO_VENV"]) == ("/usr/bin", "1")
    script = Path(first) / "labctl"
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert script.read_text() == f'#!/bin/sh\nexec {sys.executable} {ROOT / "labctl.py"} "$@"\n'
