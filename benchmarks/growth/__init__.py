"""What grows with the lab, as curves: seconds and megabytes at several sizes, and the order of each.

`ledger` and `objects` start an object store and nothing else, `queued` and `listed` a lab of two workers,
`nodes` a lab for each number of workers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.compare import reason, until_interrupted
from benchmarks.measure import say

SMALL = 1e-9


@dataclass(frozen=True)
class Curve:
    """One figure at several sizes, the smallest first."""

    what: str
    of: str
    """What the size counts, such as `objects`."""
    unit: str
    points: tuple[tuple[int, float], ...]

    @property
    def order(self) -> float | None:
        """The exponent by which it grew between its two largest sizes: 1 is linear, 2 quadratic."""
        if len(self.points) < 2:
            return None
        (size, value), (more, then) = self.points[-2:]
        return math.log(max(then, SMALL) / max(value, SMALL)) / math.log(more / size)

    def document(self) -> dict[str, object]:
        """Return it as JSON."""
        points = [{"size": size, "value": value} for size, value in self.points]
        return {"what": self.what, "of": self.of, "unit": self.unit, "points": points, "order": self.order}


class Curves:
    """Collects points."""

    def __init__(self, of: str) -> None:
        """`of` is what the sizes count."""
        self._of = of
        self._points: dict[tuple[str, str], list[tuple[int, float]]] = {}

    def add(self, size: int, what: str, unit: str, value: float) -> None:
        """Take up the next point of a curve."""
        say(f"{size:,} {self._of}: {what}: {shown(value)} {unit}")
        self._points.setdefault((what, unit), []).append((size, value))

    def made(self) -> list[Curve]:
        """The curves so far."""
        return [Curve(what, self._of, unit, tuple(p)) for (what, unit), p in self._points.items()]


def parts() -> Mapping[str, tuple[str, Callable[[Curves], None]]]:
    """Part -> what its sizes count, and its measurement, the smallest size first."""
    from benchmarks.growth import running, stored

    return {
        "ledger": ("minutes of 50 steps a second", stored.ledger),
        "objects": ("objects", stored.objects),
        "queued": ("jobs that wait in a queue", running.queued),
        "listed": ("jobs that Ray lists", running.listed),
        "nodes": ("workers", running.nodes),
    }


def run(names: Iterable[str]) -> list[Curve]:
    """Measure these parts, all if there are none. Raises SystemExit for a name that is none.

    A part that fails ends there, with the points that it has; an interrupt ends them all.
    """
    known, wanted = parts(), list(names)
    if unknown := [name for name in wanted if name not in known]:
        raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    made: list[Curves] = []
    with until_interrupted(say):
        for name in wanted or known:
            of, measure = known[name]
            made.append(Curves(of))
            try:
                measure(made[-1])
            except Exception as error:  # whatever it is, the smaller sizes are worth having
                say(f"{name} ends here: {reason(error)}")
    return [curve for curves in made for curve in curves.made()]


def table(curves: Sequence[Curve]) -> str:
    """Format curves as Markdown, a table for each row of sizes that they have in common."""
    groups: dict[tuple[str, tuple[int, ...]], list[Curve]] = {}
    for curve in curves:
        groups.setdefault((curve.of, tuple(size for size, _ in curve.points)), []).append(curve)
    tables = []
    for (of, sizes), members in groups.items():
        lines = [f"| {of} | {' | '.join(f'{size:,}' for size in sizes)} | order |"]
        lines.append("| --- " * (len(sizes) + 2) + "|")
        for curve in members:
            cells = [f"{shown(value)} {curve.unit}" for _, value in curve.points]
            order = "" if curve.order is None else f"{curve.order:.1f}"
            lines.append(f"| {curve.what} | {' | '.join(cells)} | {order} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def shown(value: float) -> str:
    """Format a value with two digits that count."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def median_of(measure: Callable[[], float], times: int) -> float:
    """The median of so many measurements."""
    return statistics.median(measure() for _ in range(times))
