"""Helpers of all benchmarks: a lab of their own, and progress output."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.compare import LostError
from lab.host import gpus
from lab.lab import Lab
from lab.runtime.select import choose
from lab.topology import LabSpec

OURS, STOCK = "this lab", "stock Ray"
SCRIPTS = Path(__file__).parent / "scripts"
"""Jobs in the measured labs."""

WORKERS = 2


def say(text: str) -> None:
    """Print progress to stderr, apart from the figures."""
    print(text, file=sys.stderr, flush=True)


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that `action` takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


@contextlib.contextmanager
def own_lab(name: str, *, runtime: str = "local") -> Iterator[Lab]:
    """Yield a running lab with simulated GPUs; take it down with its objects at the end."""
    with tempfile.TemporaryDirectory(prefix="raylab-bench-") as folder:
        lab = Lab(choose(runtime, name, folder=Path(folder) / name).view)
        try:
            lab.up(LabSpec(name, gpus.plan(gpus.GpuRequest("simulated"), WORKERS), workers=WORKERS))
            yield lab
        finally:
            lab.down(volumes=True)


def succeed(lab: Lab, job: str, seconds: float) -> None:
    """Wait for the end of a job. Raises LostError unless it succeeded, WaitTimeoutError after so long."""
    ended = lab.jobs.wait(job, seconds)
    if ended.status != "SUCCEEDED":
        raise LostError(f"job {job} {ended.status}: {ended.message.strip()[-200:]}")
