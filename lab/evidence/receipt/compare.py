"""Compares two runs, as a rule a recovered one and an undisturbed one."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from lab.api.receipt import CurvesDocument
from lab.evidence.ledger import History, Number, Report, Run, number
from lab.host.quantities import plural

WEIGHTS = "weights_sha256"
"""The metric with the SHA-256 over a model's weights, where a script reports one."""

CLOCKED = re.compile(
    r"(^|_)(time|times|timestamp|date|seconds?|secs?|ms|duration|elapsed|pid|mfu|bytes)(_|$)|per_sec"
)
"""Names of metrics of time, speed or traffic: two equal trainings differ in them."""

Likeness = Literal["equal", "different", "unknown"]


@dataclass(frozen=True)
class Compared:
    """One value of both runs' last reports, None where a run does not have it."""

    name: str
    a: object
    b: object

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
    weights: Likeness
    """Likeness of the weights' SHA-256: equal means bit for bit."""
    values: tuple[Compared, ...]
    """All that was compared: the progress, the metrics named `val...`, the weights' SHA-256."""

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
    weights = compared(WEIGHTS)
    return Comparison(progress.likeness, weights.likeness, (progress, *map(compared, names), weights))


def _last(history: History) -> Report | None:
    return history.runs[-1].last if history.runs else None


def _metrics(report: Report | None) -> dict[str, object]:
    return dict(report.metrics) if report else {}


def _short(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:16]


@dataclass(frozen=True)
class CurvePoint:
    """One metric after one epoch in both runs; None where a run did not report it."""

    epoch: Number
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        """The difference, relative to the larger of both; None where a run lacks it. NaN equals NaN."""
        if self.a is None or self.b is None:
            return None
        if self.a == self.b or (math.isnan(self.a) and math.isnan(self.b)):
            return 0.0
        if not (math.isfinite(self.a) and math.isfinite(self.b)):
            return math.inf
        return abs(self.a - self.b) / max(abs(self.a), abs(self.b))


@dataclass(frozen=True)
class Curve:
    """One metric over the epochs of both runs."""

    name: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True)
class Difference:
    """A difference of two curves. `relative` is to the larger of both values."""

    metric: str
    epoch: Number
    relative: float


@dataclass(frozen=True)
class Curves:
    """The metrics of two runs, epoch by epoch. Epochs that only one of them reported make them unequal."""

    key: str
    """Metric that counts the epochs, such as `epoch`."""
    curves: tuple[Curve, ...]
    tolerance: float
    """The greatest relative difference that counts as equal; 0.0: equal bit for bit."""
    first: Difference | None
    """The first that is beyond the tolerance."""
    greatest: Difference | None
    """The greatest there is, None where no value differs."""
    missing: tuple[Number, ...]
    """Epochs that one of the runs did not report."""

    @property
    def comparable(self) -> bool:
        """True if the runs share any value."""
        return any(p.difference is not None for c in self.curves for p in c.points)

    @property
    def likeness(self) -> Likeness:
        """True if the curves are equal within the tolerance; unknown where there is nothing to compare."""
        if not self.comparable:
            return "unknown"
        return "different" if self.first or self.missing else "equal"

    @property
    def exact(self) -> bool:
        """True if they are equal bit for bit."""
        return self.likeness == "equal" and self.greatest is None

    @property
    def detail(self) -> str:
        """The result in one sentence."""
        names, epochs = len(self.curves), {p.epoch for c in self.curves for p in c.points}
        if self.likeness == "unknown":
            return "the runs share no metric that could be compared"
        compared = f"{plural(names, 'metric')} over {len(epochs)} {self.key}s"
        if self.exact:
            return f"{compared}: equal bit for bit"
        if self.missing:
            return f"{compared}: {self.key} {self.missing[0]} was reported by one of the runs only"
        far = self.greatest
        assert far is not None
        apart = (
            f"the greatest relative difference is {far.relative:.2g} ({far.metric}, {self.key} {far.epoch})"
        )
        if self.first:
            return f"{compared}: {self.first.metric} differs from {self.key} {self.first.epoch} on; {apart}"
        return f"{compared}: equal within the tolerance of {self.tolerance:g}; {apart}"

    def document(self) -> CurvesDocument:
        """Return it as receipts have it; a value that is no number is None."""
        return CurvesDocument(
            self.key,
            {"equal": True, "different": False}.get(self.likeness),
            self.exact,
            self.tolerance,
            self.detail,
            {c.name: tuple((p.epoch, _finite(p.a), _finite(p.b)) for p in c.points) for c in self.curves},
        )


def compare_curves(a: History, b: History, tolerance: float = 0.0) -> Curves:
    """Compare every numeric metric of the last runs of `a` and `b`, epoch by epoch.

    Of an epoch that was done twice the later report counts: that is what training went on from. Metrics
    that hold times are left out. On CPUs the same script and seed give the same bits: the tolerance is 0.0.
    GPU libraries add numbers in an order that changes from run to run. Each sum may be off by the rounding
    of its type (2**-24 = 6e-8 for float32), and training carries that on and multiplies it: there a tolerance
    has to be stated, as a relative difference, and it is part of the result.
    """
    runs = [h.runs[-1] if h.runs else None for h in (a, b)]
    key = next((run.progress_key for run in runs if run and run.progress_key), None) or "epoch"
    left, right = (by_epoch(run) for run in runs)
    names = sorted({name for side in (left, right) for values in side.values() for name in values} - {key})
    epochs = sorted({*left, *right})
    curves = tuple(
        Curve(
            name, tuple(CurvePoint(e, left.get(e, {}).get(name), right.get(e, {}).get(name)) for e in epochs)
        )
        for name in names
    )
    apart = [
        Difference(curve.name, point.epoch, difference)
        for curve in curves
        for point in curve.points
        if (difference := point.difference)
    ]
    beyond = [d for d in apart if d.relative > tolerance]
    return Curves(
        key=key,
        curves=curves,
        tolerance=tolerance,
        first=min(beyond, key=lambda d: d.epoch, default=None),
        greatest=max(apart, key=lambda d: d.relative, default=None),
        missing=tuple(e for e in epochs if (e in left) != (e in right)),
    )


def by_epoch(run: Run | None) -> dict[Number, dict[str, float]]:
    """Return epoch -> numeric metrics by name; of an epoch that was done twice, those of the later report."""
    by_progress: dict[Number, dict[str, float]] = {}
    for attempt in run.attempts if run else ():
        for report in attempt.reports:
            if report.progress is not None:
                by_progress[report.progress] = metrics_of(report)
    return by_progress


def metrics_of(report: Report) -> dict[str, float]:
    """Return the numeric metrics of a report, with NaN and infinity, without those that hold times."""
    return {
        name: numeric
        for name, value in report.metrics.items()
        if not CLOCKED.search(name) and (numeric := _numeric(value)) is not None
    }


def _numeric(value: object) -> float | None:
    """`value` as a float if it is a number; the ledger holds NaN and infinity as words."""
    if isinstance(value, str):
        return float(value) if value in ("nan", "inf", "-inf") else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _finite(value: float | None) -> Number | None:
    return None if value is None else number(value)
