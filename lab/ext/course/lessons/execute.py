"""Executes the notebook of a lesson where JupyterLab runs.

    python -m lab.ext.course.lessons.execute FILE --lesson N

Every line that it prints is a JSON object with an `event`: `started` (pid), `cell` (one has ended: number,
of, line, seconds, output), `failed` (number, of, error), `stored` (key). What was executed is kept in the
lab's store, with its outputs. `--stop PID` ends such a process and its kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.ext.course.lessons.evidence import folder, store_of, with_own_store
from lab.host.clock import MONOTONIC, Clock, settle

if TYPE_CHECKING:
    from nbformat import NotebookNode

OUTPUT_CHARACTERS = 20_000
"""Most of a cell's output that is passed on; all of it is in the executed notebook."""

STOP_SECONDS = 15.0
FAILED = 3
"""Exit code when a cell failed."""


def say(event: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def notebook_key(lesson: int) -> str:
    """Key of the executed notebook of a lesson in the bucket."""
    return f"{folder(lesson)}/notebook.ipynb"


def first_line(source: str) -> str:
    """The first line of a cell that is neither empty nor a comment or an import."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("#", "import ", "from "))]
    return (telling or lines or [""])[0]


def printed(cell: NotebookNode) -> str:
    """The output of a cell, its value included, without colours."""
    parts = []
    for output in cell.get("outputs", ()):
        if output["output_type"] == "stream":
            parts.append(output["text"])
        elif output["output_type"] in ("execute_result", "display_data"):
            parts.append(str(output["data"].get("text/plain", "")) + "\n")
    return "".join(parts)[-OUTPUT_CHARACTERS:]


def execute(path: Path, seconds: float, keep: Callable[[str], None], clock: Clock = MONOTONIC) -> int:
    """Execute the notebook within that time and `keep` its text; returns the exit code."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    from traitlets.config import Config

    notebook = nbformat.read(path, as_version=4)
    places = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    numbers = {index: number for number, index in enumerate(places, 1)}
    deadline = clock() + seconds
    began = at = clock()
    current = 0

    def begin(cell: NotebookNode, cell_index: int) -> None:
        nonlocal began, current
        began, current = clock(), numbers.get(cell_index, current)

    def end(cell: NotebookNode, cell_index: int, **_: object) -> None:
        if cell_index in numbers:
            took = round(clock() - began, 2)
            say("cell", number=current, of=len(places), line=first_line(cell.source),
                seconds=took, output=printed(cell))  # fmt: skip

    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout_func=lambda _: max(1, round(deadline - clock())),
        resources={"metadata": {"path": str(path.parent)}},
        config=Config({"KernelManager": {"transport_encryption": "auto"}}),  # others may reach its ports
        on_cell_start=begin,
        on_cell_executed=end,
    )
    say("started", pid=os.getpid())
    try:
        client.execute()
        return 0
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        why = "its kernel has ended"
        if isinstance(error, CellExecutionError):
            why = f"{error.ename}: {error.evalue}"
        elif isinstance(error, CellTimeoutError):
            why = f"it has not ended within {seconds:g} s of the notebook's beginning"
        say("failed", number=current, of=len(places), error=why)
        return FAILED
    finally:
        notebook.metadata["raylab"] = {"seconds": round(clock() - at, 1)}
        keep(nbformat.writes(notebook))


def stop(pid: int, clock: Clock = MONOTONIC) -> int:
    """End the process `pid` if it executes a notebook, and wait until it is gone; returns the exit code."""
    command = Path(f"/proc/{pid}/cmdline")

    def is_zombie() -> bool:
        os.kill(pid, 0)
        return command.exists() and not command.read_bytes()

    try:
        if command.parent.parent.is_dir() and b"lab.ext.course.lessons.execute" not in command.read_bytes():
            return 0
        os.kill(pid, signal.SIGTERM)
        return 0 if settle(is_zombie, bool, timeout=STOP_SECONDS, clock=clock) else 1
    except OSError:  # it is gone
        return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="lab.ext.course.lessons.execute", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("notebook", nargs="?", type=Path)
    parser.add_argument("--lesson", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=900.0, help="deadline of the whole notebook")
    parser.add_argument("--stop", type=int, metavar="PID")
    chosen = parser.parse_args(arguments)
    if chosen.stop is not None:
        return stop(chosen.stop)
    if chosen.notebook is None or not chosen.notebook.is_file():
        say("failed", number=0, of=0, error=f"there is no notebook {chosen.notebook} in {Path.cwd()}")
        return FAILED

    def keep(text: str) -> None:
        from lab import Lab

        try:
            store_of(with_own_store(Lab())).put(notebook_key(chosen.lesson), text.encode())
        except LabError as error:
            say("stored", key="", error=error.message)
        else:
            say("stored", key=notebook_key(chosen.lesson))

    return execute(chosen.notebook, chosen.seconds, keep)


if __name__ == "__main__":
    sys.exit(main())
