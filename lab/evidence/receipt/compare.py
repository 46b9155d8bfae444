"""Compares two runs, as a rule a recovered one and an undisturbed one."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lab.api.receipt import CurvesDocument, DifferenceDocument
from lab.evidence.ledger import History, Number, Report, Run, number
from lab.host.quantities import plural

WEIGHTS = "weights_sha256"
"""The metric with the SHA-256 over a model's weights, where a script reports one."""

CLOCKED = re.compile(
    r"(^|_)(time|times|timestamp|date|seconds?|secs?|ms|duration|elapsed|pid|mfu|bytes)(_|$)|per_sec"
)
"""Names of metrics of time, speed or traffic: two equal trainings differ in them."""

Likeness = Literal["equal", "different", "unknown"]

Curve = Sequence[tuple[Number, float | None, float | None]]
"""A metric of two runs: epoch, and the value of each, None where it did not report it."""


@dataclass(frozen=True)
class Comparison:
    """The ends of two runs side by side."""

    weights: Likeness
    """Likeness of the weights, bit for bit: of every rank's live state at its last report, or of the SHA-256
    that the script reports."""
    detail: str
    """What both reported last: the progress, the metrics named `val...`, the weights."""


def compare_runs(a: History, b: History) -> Comparison:
    """Compare the end of the last run of `a` with that of `b`; what a history lacks is unknown."""
    runs = [h.runs[-1] if h.runs else None for h in (a, b)]
    last = [run.last if run else None for run in runs]
    left, right = (dict(report.metrics) if report else {} for report in last)
    key = next((run.progress_key for run in runs if run), None) or "progress"
    names = sorted(name for name in {*left, *right} if name.startswith("val"))
    far, other_far = (report.progress if report else None for report in last)
    values: list[tuple[str, object, object]] = [(key, far, other_far)]
    values += [(name, left.get(name), right.get(name)) for name in names]
    mine, other = left.get(WEIGHTS), right.get(WEIGHTS)
    one, two = (_ends(run) for run in runs)
    ranks = sorted(one.keys() & two.keys())
    if ranks:
        mine, other = (_sha256([ends[rank] for rank in ranks]) for ends in (one, two))
    likeness: Likeness = "unknown" if None in (mine, other) else "equal" if mine == other else "different"
    if mine is not None or other is not None:
        values.append(("weights" if ranks else WEIGHTS, mine, other))
    return Comparison(likeness, ", ".join(_said(*value) for value in values))


def _ends(run: Run | None) -> dict[int, list[list[str | None]]]:
    """Return rank -> digests of its weights at its last report, as far as they are known."""
    attempt = next((a for a in reversed(run.attempts) if a.reports), None) if run else None
    ends = {}
    for rank, reports in attempt.by_rank.items() if attempt else ():
        for state in attempt.handed.get(rank, ())[-1:] if attempt else ():
            if state.report == reports[-1].number and state.order:
                ends[rank] = [[state.tensors.get(key) for key in keys] for keys in state.order]
    return ends


def _sha256(digests: object) -> str:
    return hashlib.sha256(repr(digests).encode()).hexdigest()


def _said(name: str, a: object, b: object) -> str:
    """Return a value for a person: once when both runs share it, else both."""
    return f"{name} {_short(a)}" if a == b and a is not None else f"{name} {_short(a)} and {_short(b)}"


def _short(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:16]


def compare_curves(a: History, b: History, tolerance: float = 0.0) -> CurvesDocument:
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
    curves: dict[str, Curve] = {
        name: [(e, left.get(e, {}).get(name), right.get(e, {}).get(name)) for e in epochs] for name in names
    }
    values = [(name, e, _apart(x, y)) for name, points in curves.items() for e, x, y in points]
    known = [(name, e, relative) for name, e, relative in values if relative is not None]
    missing = tuple(e for e in epochs if (e in left) != (e in right))
    beyond = [DifferenceDocument(name, e, number(far)) for name, e, far in known if far > tolerance]
    first = min(beyond, key=lambda difference: difference.epoch, default=None)
    greatest = max(known, key=lambda value: value[2], default=("", 0, 0.0))
    exact = bool(known) and not missing and not greatest[2]
    detail = f"{plural(len(names), 'metric')} over {len(epochs)} {key}s: "
    if not known:
        detail = "the runs share no metric that could be compared"
    elif exact:
        detail += "equal bit for bit"
    elif missing:
        detail += f"{key} {missing[0]} was reported by one of the runs only"
    else:
        where = f"{first.metric} differs from {key} {first.epoch} on" if first else ""
        name, epoch, far = greatest
        detail += where or f"equal within the tolerance of {tolerance:g}"
        detail += f"; the greatest relative difference is {far:.2g} ({name}, {key} {epoch})"
    return CurvesDocument(
        key=key,
        equal=None if not known else first is None and not missing,
        exact=exact,
        tolerance=tolerance,
        detail=detail,
        metrics={
            name: tuple((e, _finite(x), _finite(y)) for e, x, y in mine) for name, mine in curves.items()
        },
        first=first,
    )


def _apart(a: float | None, b: float | None) -> float | None:
    """Return the difference, relative to the larger of both; None where a run lacks it. NaN equals NaN."""
    if a is None or b is None:
        return None
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return abs(a - b) / max(abs(a), abs(b)) if math.isfinite(a) and math.isfinite(b) else math.inf


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
