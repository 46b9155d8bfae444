"""The recipe `llm`: figures of inference, against numpy over the same times."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def timings(llm: Any) -> list[Any]:
    draw = random.Random(1)
    drawn = []
    for number in range(40):
        parts, at = [], draw.uniform(0.05, 0.4)
        for _ in range(draw.choice([1, 2, 5, 30])):
            parts.append(at)
            at += draw.expovariate(100)
        sent = draw.uniform(0, 3)
        # A part may have several tokens, and one of no tokens is possible: tokens are what the server counts.
        tokens = len(parts) + draw.choice([0, 0, 3])
        drawn.append(llm.timing.Timing(f"r{number}", sent, tuple(parts), draw.randrange(5, 90), tokens))
    return drawn


def independent(
    rows: list[tuple[float, list[float], int, int]], seconds: float, limits: Any
) -> dict[str, Any]:
    """The same figures once more: numpy over the recorded times of the parts, on the run's clock."""
    clocks = [np.asarray(parts) + sent for sent, parts, _, _ in rows]
    sent = np.asarray([row[0] for row in rows])
    out = np.asarray([row[3] for row in rows])
    ttft = np.asarray([c[0] for c in clocks]) - sent
    e2e = np.asarray([c[-1] for c in clocks]) - sent
    several = out > 1
    tpot = ((e2e - ttft)[several]) / (out[several] - 1)
    itl = np.concatenate([np.diff(c) for c in clocks])
    good: Any = np.ones(len(rows), bool)
    all_tpot = np.zeros(len(rows))
    all_tpot[several] = tpot
    for name, values in (("ttft", ttft), ("tpot", all_tpot), ("e2e", e2e)):
        if name in limits:
            good &= values * 1000 <= limits[name]
    marks = np.sort(np.concatenate([sent, sent + e2e]))
    most = max(int(((sent <= m) & (m < sent + e2e)).sum()) for m in marks)
    figures: dict[str, Any] = {
        "output_tokens_per_second": out.sum() / seconds,
        "tokens_per_second": (out.sum() + sum(row[2] for row in rows)) / seconds,
        "requests_per_second": len(rows) / seconds,
        "goodput_per_second": good.sum() / seconds,
        "most_in_flight": most,
    }
    for name, values in (("ttft_ms", ttft), ("tpot_ms", tpot), ("itl_ms", itl), ("e2e_ms", e2e)):
        ms = values * 1000
        figures[name] = {"mean": ms.mean(), "median": np.median(ms), "std": ms.std(), "max": ms.max()}
        figures[name] |= {f"p{p}": np.percentile(ms, p) for p in (50, 90, 95, 99)}
    return figures


def test_the_figures_are_those_of_a_second_implementation(llm: Any, timings: list[Any]) -> None:
    limits = {"ttft": 300.0, "tpot": 11.0, "e2e": 600.0}
    figures = llm.timing.figures(timings, 5.5, 2, limits)
    rows = [(t.sent_at, list(t.parts), t.input_tokens, t.output_tokens) for t in timings]
    for name, value in independent(rows, 5.5, limits).items():
        assert figures[name] == pytest.approx(value, rel=1e-9), name
    assert 0 < figures["goodput_per_second"] < figures["requests_per_second"]
    assert (figures["completed"], figures["failed"]) == (40, 2)


def test_a_single_token_has_no_time_per_output_token(llm: Any) -> None:
    one = llm.timing.Timing("a", 0.0, (0.2,), 3, 1)
    figures = llm.timing.figures([one], 1.0, limits_ms={"tpot": 0.001})
    assert (one.tpot, figures["tpot_ms"], figures["itl_ms"]) == (None, None, None)
    assert figures["goodput_per_second"] == 1.0


def test_a_mean_of_requests_is_not_a_mean_of_gaps(llm: Any) -> None:
    slow = llm.timing.Timing("slow", 0.0, (0.1, 0.3), 1, 2)
    fast = llm.timing.Timing("fast", 0.0, (0.1, 0.11, 0.12, 0.13), 1, 4)
    figures = llm.timing.figures([slow, fast], 1.0)
    assert figures["tpot_ms"]["mean"] == pytest.approx(105)
    assert figures["itl_ms"]["mean"] == pytest.approx(57.5)


def test_a_run_without_answers_has_no_latencies(llm: Any) -> None:
    figures = llm.timing.figures([], 2.0, failed=3)
    assert (figures["completed"], figures["failed"], figures["ttft_ms"], figures["goodput_per_second"]) == (
        0,
        3,
        None,
        None,
    )
    assert "3 failed" in llm.timing.table(figures)


def test_the_table_names_what_it_measures(llm: Any, timings: list[Any]) -> None:
    text = llm.timing.table(llm.timing.figures(timings, 5.0, limits_ms={"ttft": 100}))
    assert all(word in text for word in ("TTFT", "TPOT", "ITL", "E2E", "p99", "goodput"))
