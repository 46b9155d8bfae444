"""The folders that a node needs: data can be listed, and scratch space can be written, read and deleted."""

from __future__ import annotations

import os
from pathlib import Path

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding

WORDS = b"raylab"


def run(context: Context, device: str = CPU) -> Finding:
    """WARN for a folder that fails, or data that was there and is gone."""
    wrong = {}
    if why := _writable(context.scratch):
        wrong[str(context.scratch)] = why
    data = context.environ.get("RAYLAB_DATA", "")
    if data:
        why = _listable(Path(data))
        known = context.notes.setdefault("volumes", set())
        if not why:
            known.add(data)
        elif data in known:  # a lab without data sets may have no such folder at all
            wrong[data] = why
    message = "; ".join(f"{folder}: {why}" for folder, why in wrong.items())
    return Finding(WARN if wrong else PASS, float(len(wrong)), "folders", message)


def _writable(folder: Path) -> str:
    """Reason why a file cannot be written, read and deleted there; empty when it can."""
    path = folder / f".raylab-health-{os.getpid()}"
    try:
        path.write_bytes(WORDS)
        same = path.read_bytes() == WORDS
        path.unlink()
    except OSError as error:
        return str(error.strerror)
    return "" if same else "what was read is not what was written"


def _listable(folder: Path) -> str:
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except OSError as error:
        return str(error.strerror)
    return ""


CHECK = Check("volumes", NODE, 60.0, run, deadline=20.0, worse_after=2, hung=WARN)
