"""Labs that are used through the command line alone, as a person does."""

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.compare import LostError
from lab.host.files import HOME_VARIABLE, ROOT
from lab.lab import Lab
from lab.runtime.select import NAME_VARIABLE, choose
from lab.services import is_worker

CALL_SECONDS, GRACE_SECONDS = 600.0, 60.0
"""Timeout of a command of labctl, and the time it then gets to undo what it has begun."""

STEP = re.compile(r"\s*[\d.]+ s\s+(\S+)\s+(\w+)")
"""A line of progress of `up`: seconds, service, state."""


@dataclass
class CliLab:
    """A lab of processes. Methods raise LostError when a command fails or takes too long."""

    home: Path
    options: tuple[str, ...] = ()
    """Further options of `up`."""
    name: str = "bench"

    def up(self, workers: int = 2) -> tuple[float, list[tuple[float, str]]]:
        """Start the lab with simulated GPUs; its output: seconds since the start, line; and its seconds."""
        output: list[tuple[float, str]] = []
        words = ("up", "--gpu", "simulated", "--workers", str(workers), *self.options, "--json")
        return self.call(words, output)[0], output

    def down(self) -> None:
        """Take the lab down and delete its objects."""
        self.call(("down", "--volumes", "--yes", "--json"))

    def submit(self, recipe: str, settings: Mapping[str, str]) -> str:
        """Start a job; return its id."""
        given = [word for name, value in settings.items() for word in ("-p", f"{name}={value}")]
        answer = self.call(("submit", recipe, *given, "--detach", "--json"))[1]
        return str(answer["submission_id"])

    @property
    def inside(self) -> Lab:
        """The same lab as an object."""
        return Lab(choose("local", self.name, folder=self.folder).view)

    @property
    def folder(self) -> Path:
        """Folder of the lab, with which the marks of its processes begin."""
        return self.home / self.name

    def call(
        self, words: Sequence[str], seen: list[tuple[float, str]] | None = None
    ) -> tuple[float, dict[str, Any]]:
        """Run a command of labctl on this lab; returns its seconds and its JSON."""
        command = [sys.executable, "labctl.py", "--runtime", "local", *words]
        chosen = {HOME_VARIABLE: str(self.home), NAME_VARIABLE: self.name}
        environment = {**clean(os.environ), **chosen, "LABCTL_NO_VENV": "1"}
        return call(command, ROOT, environment, seen=seen)


@contextlib.contextmanager
def cli_lab(*options: str) -> Iterator[CliLab]:
    """Yield a lab that is not up yet, with these options of `up`; take it down at the end in any case."""
    home = Path(tempfile.mkdtemp(prefix="raylab-bench-"))
    lab = CliLab(home, options)
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
        timers = (
            threading.Timer(seconds, process.send_signal, (signal.SIGINT,)),
            threading.Timer(seconds + GRACE_SECONDS, process.kill),
        )
        for timer in timers:
            timer.start()
        try:
            assert process.stderr is not None
            for line in process.stderr:
                lines.append((time.perf_counter() - begin, line.rstrip()))
            process.wait(GRACE_SECONDS)
        except KeyboardInterrupt:  # it may clean up
            process.send_signal(signal.SIGINT)
            process.wait(GRACE_SECONDS)
            raise
        finally:
            for timer in timers:
                timer.cancel()
            process.kill()
            process.wait()
        passed = time.perf_counter() - begin
        if process.returncode:
            raise LostError(why(process.returncode, [line for _, line in lines], passed, seconds))
        output.seek(0)
        text = output.read()
    for document in (text, text.strip().rpartition("\n")[2]):
        with contextlib.suppress(ValueError):
            return passed, json.loads(document)
    return passed, {}


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


def nodes_alive(output: Sequence[tuple[float, str]]) -> float | None:
    """Return the second at which the last worker node was healthy, by the lines of `up`; None if unknown."""
    at: dict[str, float] = {}
    for seconds, line in output:
        match = STEP.match(line)
        if match and is_worker(match[1]) and match[2] == "healthy":
            at.setdefault(match[1], seconds)
    return max(at.values(), default=None)
