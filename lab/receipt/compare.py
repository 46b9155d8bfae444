"""How far two runs ended the same: a recovered one and an undisturbed one, as a rule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from lab.ledger import History, Report

WEIGHTS = "weights_sha256"
"""The metric with the SHA-256 over a model's weights, where a script reports one."""


class Likeness(str, Enum):
    """What a comparison of two values found."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Compared:
    """One value of both runs, None where a run does not have it."""

    name: str
    a: Any
    b: Any

    @property
    def likeness(self) -> Likeness:
        """Equal bit for bit, different, or unknown because a run does not have the value."""
        if self.a is None or self.b is None:
            return Likeness.UNKNOWN
        return Likeness.EQUAL if self.a == self.b else Likeness.DIFFERENT


@dataclass(frozen=True)
class Comparison:
    """The last reports of two runs side by side."""

    progress: Compared
    metrics: tuple[Compared, ...]
    """Those whose names begin with `val`, by name."""
    weights: Compared

    @property
    def identical(self) -> bool:
        """Whether both runs came equally far and ended with the same weights, bit for bit."""
        return self.progress.likeness is Likeness.EQUAL is self.weights.likeness

    def to_json(self) -> dict[str, Any]:
        """As plain dicts: {"identical", "progress", "metrics", "weights"}, each value with both sides."""
        return {
            "identical": self.identical,
            "progress": _plain(self.progress),
            "metrics": [_plain(m) for m in self.metrics],
            "weights": _plain(self.weights),
        }


def compare_runs(a: History, b: History) -> Comparison:
    """Compare the last report of the last run of `a` with that of `b`; what a history lacks is unknown."""
    left, right = _last(a), _last(b)
    names = sorted(n for n in {*_metrics(left), *_metrics(right)} if n.startswith("val"))

    def compared(name: str) -> Compared:
        return Compared(name, _metrics(left).get(name), _metrics(right).get(name))

    progress = Compared("progress", left.progress if left else None, right.progress if right else None)
    return Comparison(progress, tuple(compared(n) for n in names), compared(WEIGHTS))


def _last(history: History) -> Report | None:
    return history.runs[-1].last if history.runs else None


def _metrics(report: Report | None) -> dict[str, Any]:
    return dict(report.metrics) if report else {}


def _plain(compared: Compared) -> dict[str, Any]:
    return {"name": compared.name, "a": compared.a, "b": compared.b, "likeness": compared.likeness.value}
