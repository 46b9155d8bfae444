"""Signals the process of one rank, after making sure that it is one: nothing else may be hit.

    python -m raylab_faults.rank kill|hang|thaw PID

`kill` is SIGKILL, `hang` SIGSTOP, `thaw` SIGCONT. PID must be a rank of Ray Train on the node in whose
environment this runs. Prints one JSON object: `pid`, `done`, and `problem`, why it was not done; `first` and
`last`, the seconds since the epoch right before and right after the signal. The exit code is 0 when it was
done, 3 when PID is no rank of this node, 4 when the signal could not be sent. `thaw` of a process that has
ended, or is no rank of this node, is 0: its id is somebody else's by now, which gets no signal, and nothing
is left to thaw.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

TITLE = "ray::RayTrainWorker"
"""Title that Ray (2.60) gives the process of a rank."""

STAND_IN = "fork:"
"""Prefix of the name of a process that stands for one that a fork server has made; its id follows."""

NAME_VARIABLE = "RAYLAB_SERVICE_NAME"
MARK_VARIABLE = "RAYLAB_SERVICE"
"""Variable that names lab and service; set where nodes of several labs share a machine."""

NOT_A_RANK = 3
NOT_SENT = 4

SIGNALS = {"kill": "SIGKILL", "hang": "SIGSTOP", "thaw": "SIGCONT"}


def start_time(pid: int) -> str:
    """Start time of a process, as a text that stays the same as long as it lives. Raises psutil.Error."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[19].decode()  # in clock ticks since the boot: nobody sets that clock
    except (OSError, IndexError):
        import psutil

        return f"{psutil.Process(pid).create_time():.2f}"


def gone(pid: int) -> bool:
    """Tell whether the process has ended; a zombie has."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def problem(pid: int, environment: Mapping[str, str] = os.environ) -> str:
    """The reason for which `pid` is no rank on the node of this environment; empty when it is one."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return f"process {pid} has ended"
        title = " ".join(process.cmdline()).strip()
        if not title.startswith(TITLE):
            return f"process {pid} is not a rank of Ray Train: {title[:60] or 'it has no title'}"
        theirs = _marks(_origin(process))
    except psutil.NoSuchProcess:
        return f"there is no process {pid}"
    except psutil.Error as error:
        return f"process {pid} cannot be inspected: {error}"
    for name in (NAME_VARIABLE, MARK_VARIABLE):
        ours = environment.get(name, "")
        if ours and theirs.get(name, "") != ours:
            return f"process {pid} is a rank on {theirs.get(NAME_VARIABLE) or 'no node'}, not on this one"
    return "" if environment.get(NAME_VARIABLE) else "this is not the environment of a node"


def _origin(process: Any) -> list[Any]:
    """A process and those it comes from, the nearest first.

    One that a fork server has made comes from the launcher that stands for it, which is called by its id.
    """
    import psutil

    name = f"{STAND_IN}{process.pid}"
    stand_in = next(
        (candidate for candidate in psutil.process_iter(["name"]) if candidate.info["name"] == name), None
    )
    return [stand_in, *stand_in.parents()] if stand_in else [process, *process.parents()]


def _marks(chain: Sequence[Any]) -> dict[str, str]:
    """The node's variables of a process, or of the nearest parent that shows them: a title may hide them."""
    import psutil

    for process in chain:
        try:
            environment = process.environ()
        except psutil.Error:
            continue
        if NAME_VARIABLE in environment:
            return {name: environment.get(name, "") for name in (NAME_VARIABLE, MARK_VARIABLE)}
    return {}


def main(argv: Sequence[str], send: Callable[[int, int], None] = os.kill) -> int:
    """Check, send the signal, print the answer, return the exit code."""
    if len(argv) != 2 or argv[0] not in SIGNALS or not argv[1].isdecimal():
        print(f"usage: {__doc__}")
        return 2
    action, pid = argv[0], int(argv[1])
    if action == "thaw" and gone(pid):
        return answer(pid, "")
    why, code = problem(pid), NOT_A_RANK
    if why and action == "thaw" and os.environ.get(NAME_VARIABLE):
        return answer(pid, "")
    if why:
        return answer(pid, why, code)
    first = time.time()
    try:
        send(pid, getattr(signal, SIGNALS[action]))
    except OSError as error:
        return answer(pid, f"{SIGNALS[action]} could not be sent to process {pid}: {error}", NOT_SENT)
    return answer(pid, "", first=first, last=time.time())


def answer(pid: int, why: str, code: int = NOT_A_RANK, **times: float) -> int:
    """Print the JSON object; returns 0, or `code` when there is a problem."""
    print(json.dumps({"pid": pid, "done": not why, "problem": why, **times}))
    return code if why else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
