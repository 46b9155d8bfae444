"""What the benchmarks share: a lab of their own, repeated runs, and tables of medians."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import gpus
from lab.lab import Lab
from lab.runtime.select import choose
from lab.topology import LabSpec


@dataclass(frozen=True)
class Row:
    """One figure: seconds of every run, here and for the peer, and what the peer is."""

    what: str
    seconds: tuple[float, ...]
    peer: str = ""
    peer_seconds: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        """Median of our runs, in seconds."""
        return statistics.median(self.seconds)

    @property
    def ratio(self) -> float | None:
        """Peer's median over ours: above 1 means that we are faster."""
        return statistics.median(self.peer_seconds) / self.median if self.peer_seconds else None

    def document(self) -> dict[str, object]:
        """As JSON."""
        return {**dataclasses.asdict(self), "median": self.median, "ratio": self.ratio}


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| what | median s (min-max) | peer | peer's median s (min-max) | peer / ours |",
        "| --- " * 5 + "|",
    ]
    for row in rows:
        peer = _spread(row.peer_seconds) if row.peer_seconds else ""
        ratio = f"{row.ratio:.1f}x" if row.ratio else ""
        lines.append(f"| {row.what} | {_spread(row.seconds)} | {row.peer} | {peer} | {ratio} |")
    return "\n".join(lines)


def say(text: str) -> None:
    """Progress, apart from the figures."""
    print(text, file=sys.stderr, flush=True)


def timed(action: Callable[[], object]) -> float:
    """Seconds that `action` takes."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


@contextlib.contextmanager
def own_lab(name: str, *, stock_ray: bool = False, workers: int = 2, runtime: str = "local") -> Iterator[Lab]:
    """A lab with simulated GPUs, up on `local` or `compose`; taken down with everything at the end."""
    with tempfile.TemporaryDirectory(prefix="raylab-bench-") as folder:
        lab = Lab(choose(runtime, name, folder=Path(folder) / name).runtime)
        try:
            lab.up(spec(name, stock_ray=stock_ray, workers=workers))
            yield lab
        finally:
            lab.down(volumes=True)


def spec(name: str, *, stock_ray: bool = False, workers: int = 2) -> LabSpec:
    """The settings every benchmark uses."""
    return LabSpec(name, gpus.plan("simulated", workers), workers=workers, stock_ray=stock_ray)


def _spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"
