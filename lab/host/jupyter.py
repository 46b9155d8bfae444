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

ASIDE = "aside"
"""Command in the same folder that runs another one with less weight: it gives way to what answers pages."""

ASIDE_SCRIPT = """\
#!/bin/sh
# Run a command that gives way to what answers pages. Linux' autogroup weighs all processes of a session as
# one against other sessions, whatever their nice. Users may set one in 0.1 s, all together: it tries again.
again='for _ in $(seq 100); do sleep 0.3; echo 10 > /proc/self/autogroup && break; done'
{
    [ ! -w /proc/self/autogroup ] || echo 10 > /proc/self/autogroup || (sh -c "$again" > /dev/null &)
} 2> /dev/null
exec nice -n 10 "$@"
"""

CLASS_PAGE, DASHBOARD, PERSON = "RAYLAB_CLASS_URL", "RAYLAB_DASHBOARD_URL", "RAYLAB_PERSON"
"""Variables of JupyterLab with the addresses of pages as a browser has them, and with whose server it is."""

CONTAINERS = "RAYLAB_CLASS_CONTAINERS"
"""Variable of a person's JupyterLab in a class of containers, where she cannot break a node."""


def terminals(folder: Path, path: str) -> dict[str, str]:
    """Variables by which terminals have the command of this folder; `path` is the PATH without it."""
    return {"PATH": os.pathsep.join((str(folder / TOOLS), path)), "LABCTL_NO_VENV": "1"}


def write_labctl(folder: Path) -> None:
    """Write the command, which runs the labctl of this process, for `terminals`. Raises SetupError."""
    words = shlex.join((sys.executable, str(ROOT / "labctl.py")))
    _write(folder, "labctl", f'#!/bin/sh\nexec {words} "$@"\n')


def write_aside(folder: Path) -> None:
    """Write the command ASIDE for `terminals`. Raises SetupError."""
    _write(folder, ASIDE, ASIDE_SCRIPT)


def _write(folder: Path, name: str, text: str) -> None:
    script = folder / TOOLS / name
    script.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_private(script, text)
    script.chmod(0o755)
