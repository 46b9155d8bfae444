"""Labs of this checkout or another one, used only through the command line, which every revision has."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.compare import LostError
from lab.host.files import HOME_VARIABLE, ROOT
from lab.runtime.select import NAME_VARIABLE
from lab.services import is_worker

OURS, STOCK = "this checkout", "stock Ray"
CALL_SECONDS, GRACE_SECONDS = 600.0, 60.0
"""Timeout of a command of labctl, and the time it then gets to undo what it has begun."""

STEP = re.compile(r"\s*[\d.]+ s\s+(\S+)\s+(\w+)")
"""A line of progress of `up`: seconds, service, state."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a checkout, the Python that runs it, and further options of `up`."""

    name: str
    root: Path
    python: str = sys.executable
    options: tuple[str, ...] = ()


def sides(against: Path | None, *, stock: bool) -> list[Side]:
    """Return this checkout; with `stock` also stock Ray; and the checkout `against`, if it is given.

    The other checkout runs in the environment beside it, if it has one, else with this interpreter.
    Raises SystemExit when `against` is not a checkout.
    """
    sides = [Side(OURS, ROOT)]
    if stock:
        sides.append(Side(STOCK, ROOT, options=("--stock-ray",)))
    if against is not None:
        root = against.expanduser().absolute()
        if not (root / "labctl.py").is_file():
            raise SystemExit(f"--against {against}: there is no labctl.py")
        own = root / ".venv" / "bin" / "python"
        sides.append(Side(revision(root), root, str(own) if own.exists() else sys.executable))
    return sides


def revision(root: Path) -> str:
    """Name a checkout by its commit, marked as dirty when files were changed; else by its folder."""
    call = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        ended = subprocess.run(call, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return root.name
    return ended.stdout.strip() or root.name


@dataclass
class CliLab:
    """A lab of processes of one side. Methods raise LostError when a command fails or takes too long."""

    side: Side
    home: Path
    name: str = "bench"
    seen: list[tuple[float, str]] = field(default_factory=list)
    """Output of the last `up`: seconds since its start, line."""

    def up(self, workers: int = 2) -> float:
        """Start the lab with simulated GPUs; return the seconds until it is healthy."""
        self.seen = []
        asked = ("up", "--gpu", "simulated", "--workers", str(workers), *self.side.options, "--json")
        return self.call(asked, self.seen)[0]

    def down(self) -> None:
        """Take the lab down and delete its objects."""
        self.call(("down", "--volumes", "--yes", "--json"))

    def submit(self, recipe: str, settings: Mapping[str, str]) -> str:
        """Start a job; return its id."""
        given = [word for name, value in settings.items() for word in ("-p", f"{name}={value}")]
        answer = self.call(("submit", recipe, *given, "--detach", "--json"))[1]
        return str(answer["submission_id"])

    def checkpoints(self, job: str) -> int:
        """Count the checkpoints of a job. Checkouts from before November 2026 have the command elsewhere."""
        with contextlib.suppress(LostError):
            return len(self.call(("jobs", "checkpoints", job, "--json"))[1]["checkpoints"])
        return len(self.call(("checkpoints", job, "--json"))[1]["checkpoints"])

    @property
    def folder(self) -> Path:
        """Folder of the lab, with which the marks of its processes begin."""
        return self.home / self.name

    def call(
        self, words: Sequence[str], seen: list[tuple[float, str]] | None = None
    ) -> tuple[float, dict[str, Any]]:
        """Run a command of labctl on this lab; returns its seconds and its JSON."""
        command = [self.side.python, "labctl.py", "--runtime", "local", *words]
        chosen = {HOME_VARIABLE: str(self.home), NAME_VARIABLE: self.name}
        environment = {**clean(os.environ), **chosen, "LABCTL_NO_VENV": "1"}
        return call(command, self.side.root, environment, seen=seen)


@contextlib.contextmanager
def cli_lab(side: Side) -> Iterator[CliLab]:
    """Yield a lab of this side that is not up yet; take it down at the end in any case."""
    home = Path(tempfile.mkdtemp(prefix="raylab-bench-"))
    lab = CliLab(side, home)
    try:
        yield lab
    finally:
        with contextlib.suppress(LostError):
            lab.down()
        shutil.rmtree(home, ignore_errors=True)


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove the variables that would select another lab."""
    return {name: value for name, value in environment.items() if not name.startswith(("RAYLAB_", "RAY_"))}


def call(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    *,
    seen: list[tuple[float, str]] | None = None,
    seconds: float = CALL_SECONDS,
) -> tuple[float, dict[str, Any]]:
    """Run a command of labctl; return its seconds and the JSON that it prints last, {} if it prints none.

    `seen` gets each line of its stderr at once, with the seconds since the start. Raises LostError.
    """
    begin = time.perf_counter()
    lines: list[tuple[float, str]] = [] if seen is None else seen
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with process, _ended_after(process, seconds):
            assert process.stderr is not None
            for line in process.stderr:
                lines.append((time.perf_counter() - begin, line.rstrip()))
        passed = time.perf_counter() - begin
        if process.returncode:
            raise LostError(why(process.returncode, [line for _, line in lines], passed, seconds))
        output.seek(0)
        text = output.read()
    for document in (text, text.strip().rpartition("\n")[2]):
        with contextlib.suppress(ValueError):
            return passed, json.loads(document)
    return passed, {}


@contextlib.contextmanager
def _ended_after(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """Interrupt a command after its timeout or when we are, so that it can clean up. Later kill it."""
    timers = [
        threading.Timer(seconds, process.send_signal, (signal.SIGINT,)),
        threading.Timer(seconds + GRACE_SECONDS, process.kill),
    ]
    for timer in timers:
        timer.start()
    try:
        yield
        process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
        process.kill()
        raise
    finally:
        for timer in timers:
            timer.cancel()


def recovered_in(receipt: Mapping[str, Any]) -> tuple[float, float]:
    """Return the seconds from the fault to the first new step and epoch. Raises LostError."""
    stages = receipt.get("breakdown")
    if not stages or stages.get("first_step") is None:
        raise LostError("the receipt has no stages")
    total = sum(value or 0.0 for value in stages.values())
    return total - stages["report"], total


def why(code: int, lines: Sequence[str], passed: float, limit: float) -> str:
    """Explain in one line why a command has failed."""
    if passed >= limit:
        return f"took longer than {limit:g} s"
    said = [line for line in lines if line.startswith("error:")] or [line for line in lines if line.strip()]
    return f"exit code {code}: {said[-1].removeprefix('error:').strip()}" if said else f"exit code {code}"


def nodes_alive(
    seen: Sequence[tuple[float, str]], is_wanted: Callable[[str], bool] = is_worker
) -> float | None:
    """Return the second at which the last worker node was healthy, by the lines of `up`; None if unknown."""
    at: dict[str, float] = {}
    for seconds, line in seen:
        match = STEP.match(line)
        if match and is_wanted(match[1]) and match[2] == "healthy":
            at.setdefault(match[1], seconds)
    return max(at.values(), default=None)
