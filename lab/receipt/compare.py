"""How far two runs ended the same: a recovered one and an undisturbed one, as a rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from lab.ledger import History, Report

WEIGHTS = "weights_sha256"
"""The metric with the SHA-256 over a model's weights, where a script reports one."""

Likeness = Literal["equal", "different", "unknown"]


@dataclass(frozen=True)
class Compared:
    """One value of both runs' last reports, None where a run does not have it."""

    name: str
    a: Any
    b: Any

    @property
    def likeness(self) -> Likeness:
        """`unknown` where a run does not have the value."""
        if self.a is None or self.b is None:
            return "unknown"
        return "equal" if self.a == self.b else "different"


@dataclass(frozen=True)
class Comparison:
    """The last reports of two runs side by side."""

    progress: Likeness
    metrics: Likeness
    """Of those whose names begin with `val`: different as soon as one of them is."""
    weights: Likeness
    """Of the weights' SHA-256: equal means bit for bit."""
    values: tuple[Compared, ...]
    """What was compared: the progress, the metrics by name, the weights' SHA-256."""

    @property
    def identical(self) -> bool:
        """Whether both runs came equally far and ended with the same weights."""
        return self.progress == "equal" == self.weights

    @property
    def detail(self) -> str:
        """The values, for a person: one when both runs share it, else both."""
        return ", ".join(
            f"{c.name} {_short(c.a)}"
            if c.likeness == "equal"
            else f"{c.name} {_short(c.a)} and {_short(c.b)}"
            for c in self.values
        )


def compare_runs(a: History, b: History) -> Comparison:
    """Compare the last report of the last run of `a` with that of `b`; what a history lacks is unknown."""
    left, right = _last(a), _last(b)
    name = next((h.runs[-1].progress_key for h in (a, b) if h.runs), None) or "progress"
    progress = Compared(name, left.progress if left else None, right.progress if right else None)

    def compared(metric: str) -> Compared:
        return Compared(metric, _metrics(left).get(metric), _metrics(right).get(metric))

    names = sorted(n for n in {*_metrics(left), *_metrics(right)} if n.startswith("val"))
    metrics, weights = [compared(n) for n in names], compared(WEIGHTS)
    return Comparison(progress.likeness, _all(metrics), weights.likeness, (progress, *metrics, weights))


def _all(values: Iterable[Compared]) -> Likeness:
    found = {value.likeness for value in values}
    if "different" in found:
        return "different"
    return "equal" if found == {"equal"} else "unknown"


def _last(history: History) -> Report | None:
    return history.runs[-1].last if history.runs else None


def _metrics(report: Report | None) -> dict[str, Any]:
    return dict(report.metrics) if report else {}


def _short(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:16]
