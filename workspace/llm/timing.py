"""Figures of inference, from the times at which the parts of each answer came. The definitions are vLLM's.

For one request, with times in seconds from just before it is sent:

- TTFT, time to first token: until the first part of the answer.
- ITL, inter-token latencies: the gaps from each part to the next, several for a request.
- E2E, end-to-end latency: until the last part.
- TPOT, time per output token: (E2E - TTFT) / (output tokens - 1); there is none for a single token.

Of a run, whose duration is that from its begin to its end on the clock: throughput is requests, or tokens,
a second; goodput counts only requests that kept every limit that was set. A request without an answer is
counted as failed, and in no latency. Two averages differ: TPOT's gives each request the same weight, ITL's
each gap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PERCENTILES = (50.0, 90.0, 95.0, 99.0)


@dataclass(frozen=True)
class Timing:
    """One request that was answered."""

    id: str
    sent_at: float
    """Seconds on the clock of the run."""
    parts: tuple[float, ...]
    """Seconds from then to each part of the answer; at least one."""
    input_tokens: int
    output_tokens: int
    """As the server counts them: a part may have several tokens."""
    attempts: int = 1
    """Times that it was sent. The times are those of the last one, unless `sent_at` says otherwise."""

    @property
    def ttft(self) -> float:
        return self.parts[0]

    @property
    def e2e(self) -> float:
        return self.parts[-1]

    @property
    def tpot(self) -> float | None:
        if self.output_tokens < 2:
            return None
        return (self.e2e - self.ttft) / (self.output_tokens - 1)

    @property
    def itl(self) -> tuple[float, ...]:
        return tuple(b - a for a, b in zip(self.parts, self.parts[1:], strict=False))


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which so many percent lie, between two values along a line."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread(seconds: Sequence[float], percents: Sequence[float] = PERCENTILES) -> dict[str, float] | None:
    """Mean, median, deviation, percentiles and greatest, in milliseconds; None for nothing."""
    if not seconds:
        return None
    mean = math.fsum(seconds) / len(seconds)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in seconds) / len(seconds))
    values = {"mean": mean, "median": percentile(seconds, 50), "std": deviation}
    values |= {f"p{percent:g}": percentile(seconds, percent) for percent in percents}
    values["max"] = max(seconds)
    return {name: 1000 * value for name, value in values.items()}


def most_in_flight(timings: Sequence[Timing]) -> int:
    """Most requests that were under way at the same time."""
    changes = [(t.sent_at, 1) for t in timings] + [(t.sent_at + t.e2e, -1) for t in timings]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def keeps(timing: Timing, limits_ms: Mapping[str, float]) -> bool:
    """True if the request kept every limit: `ttft`, `tpot`, `e2e`, in milliseconds."""
    latencies = {"ttft": timing.ttft, "tpot": timing.tpot or 0.0, "e2e": timing.e2e}
    return all(1000 * latencies[name] <= limit for name, limit in limits_ms.items())


def figures(
    timings: Sequence[Timing],
    seconds: float,
    failed: int = 0,
    limits_ms: Mapping[str, float] | None = None,
    percents: Sequence[float] = PERCENTILES,
) -> dict[str, Any]:
    """All figures of a run that took so many seconds. Latencies are in milliseconds, rates per second."""
    sent = sum(t.input_tokens for t in timings)
    received = sum(t.output_tokens for t in timings)
    limits = dict(limits_ms or {})
    return {
        "completed": len(timings),
        "failed": failed,
        "seconds": seconds,
        "input_tokens": sent,
        "output_tokens": received,
        "requests_per_second": len(timings) / seconds,
        "output_tokens_per_second": received / seconds,
        "tokens_per_second": (sent + received) / seconds,
        "most_in_flight": most_in_flight(timings),
        "limits_ms": limits,
        "goodput_per_second": sum(keeps(t, limits) for t in timings) / seconds if limits else None,
        "ttft_ms": spread([t.ttft for t in timings], percents),
        "tpot_ms": spread([t.tpot for t in timings if t.tpot is not None], percents),
        "itl_ms": spread([gap for t in timings for gap in t.itl], percents),
        "e2e_ms": spread([t.e2e for t in timings], percents),
    }


def table(totals: Mapping[str, Any]) -> str:
    """The figures in words, for a log."""
    lines = [
        f"{totals['completed']} requests answered, {totals['failed']} failed, in {totals['seconds']:.1f} s, "
        f"at most {totals['most_in_flight']} in flight",
        f"{totals['requests_per_second']:.2f} requests/s, {totals['output_tokens_per_second']:,.0f} output "
        f"tokens/s, {totals['tokens_per_second']:,.0f} tokens/s with the prompts",
    ]
    if totals["goodput_per_second"] is not None:
        limits = ", ".join(f"{name} {limit:g} ms" for name, limit in totals["limits_ms"].items())
        lines.append(f"goodput {totals['goodput_per_second']:.2f} requests/s within {limits}")
    names = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "itl_ms": "ITL", "e2e_ms": "E2E"}
    shown = [(label, totals[name]) for name, label in names.items() if totals[name]]
    if shown:
        columns = list(shown[0][1])
        lines.append("ms  " + "".join(f"{column:>10}" for column in columns))
        lines += [f"{label:4}" + "".join(f"{row[c]:>10.1f}" for c in columns) for label, row in shown]
    return "\n".join(lines)
