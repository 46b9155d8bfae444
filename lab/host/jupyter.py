"""Parts of every JupyterLab of a lab, a person's too: the page it opens on, and `labctl` in its terminals."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from lab.host.files import ROOT, write_private

INDEX = "START-HERE.md"
"""The page; no file has it. compose/jupyter names it, too."""

TOOLS = "bin"
"""Folder of the command, in one of the JupyterLab's own."""

CLASS_PAGE, DASHBOARD, PERSON = "RAYLAB_CLASS_URL", "RAYLAB_DASHBOARD_URL", "RAYLAB_PERSON"
"""Variables of JupyterLab with the addresses of pages as a browser has them, and with whose server it is."""


def terminals(folder: Path, path: str) -> dict[str, str]:
    """Variables by which terminals have the command of this folder; `path` is the PATH without it."""
    return {"PATH": os.pathsep.join((str(folder / TOOLS), path)), "LABCTL_NO_VENV": "1"}


def write_labctl(folder: Path) -> None:
    """Write the command, which runs the labctl of this process, for `terminals`. Raises SetupError."""
    script = folder / TOOLS / "labctl"
    script.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    words = shlex.join((sys.executable, str(ROOT / "labctl.py")))
    write_private(script, f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o755)
