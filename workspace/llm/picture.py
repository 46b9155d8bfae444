"""A picture of a run's latencies: time to the first token over the run, and the shares of all latencies."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BLUE, RED, GREEN, PINK, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6B6B6B"  # Okabe and Ito


def draw(measured: Mapping[str, Any], path: Path) -> None:
    """Draw figures with their `requests` into a file of matplotlib's kinds: PNG, SVG, PDF.

    A request that was sent more than once is a triangle, and `lost_at` (seconds of the run) a line each.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 6.4), layout="constrained")
    over, shares = figure.subplots(2, 1)
    once = [r for r in measured["requests"] if r.get("attempts", 1) == 1]
    again = [r for r in measured["requests"] if r.get("attempts", 1) > 1]
    for rows, mark, colour, label in ((once, "o", BLUE, "sent once"), (again, "^", RED, "sent again")):
        if rows:
            over.scatter([r["sent_at"] for r in rows], [1000 * r["parts"][0] for r in rows], s=14,
                         marker=mark, color=colour, label=label)  # fmt: skip
    for place, at in enumerate(measured.get("lost_at", ())):
        over.axvline(
            at, color=RED, linewidth=1, linestyle="--", label="node declared dead" if not place else None
        )
    over.set_title("Time to first token", loc="left")
    over.set(xlabel="seconds of the run", ylabel="ms", yscale="log")
    over.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.4, 1.0), ncols=3, borderpad=0)
    gaps = [gap for r in measured["requests"] for gap in _gaps(r["parts"])]
    rows = (
        ("TTFT", [r["parts"][0] for r in measured["requests"]], BLUE, "-"),
        ("ITL", gaps, GREEN, "--"),
        ("E2E", [r["parts"][-1] for r in measured["requests"]], PINK, "-."),
    )
    for label, seconds, colour, dashes in rows:
        ordered = sorted(1000 * max(s, 1e-6) for s in seconds)
        if ordered:
            heights = [100 * (i + 1) / len(ordered) for i in range(len(ordered))]
            shares.step(ordered, heights, where="post", color=colour, linestyle=dashes, label=label)
    shares.set_title("Latencies", loc="left")
    shares.set(xlabel="ms", ylabel="% at most this long", xscale="log", ylim=(0, 101))
    shares.legend(frameon=False, fontsize=8)
    for axes in (over, shares):
        axes.grid(color="#E6E8EC", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=GREY)
    figure.savefig(path, dpi=200)


def _gaps(parts: list[float]) -> list[float]:
    return [b - a for a, b in itertools.pairwise(parts)]
