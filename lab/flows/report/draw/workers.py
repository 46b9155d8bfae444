"""Which worker trained when: a row for each service, a bar for each rank of each attempt."""

from __future__ import annotations

from typing import Any

from lab.flows.report import labels
from lab.flows.report.draw.style import COLOURS, HATCHES, INK, QUIET, fault_line, figure, legend, of
from lab.flows.report.model import Bar, Tale

LANE = 0.42
"""Inches of one lane; a service has one for each rank that ever trained on it at the same time."""

ZOOM_SHARE = 5.0
"""The time around the fault gets a picture of its own where the whole is so many times longer."""

LEGIBLE_TICKS = 90
"""Reports that are marked in a bar, at most."""


def draw(tale: Tale) -> Any:
    """The whole run, and the time around the fault larger; nothing where no attempt is known."""
    if not tale.bars:
        return None
    lanes = _lanes(tale)
    begin, end = min(bar.begin for bar in tale.bars), _end(tale)
    views = [(begin, end, "")]
    around = _around(tale, begin, end)
    if around is not None and (end - begin) > ZOOM_SHARE * (around[1] - around[0]):
        views[0] = (begin, end, "the whole run")
        views.append((*around, "around the fault"))
    drawn = figure(0.55 + len(views) * (0.75 + LANE * sum(lanes.values())))
    for place, (left, right, title) in enumerate(views):
        axes = drawn.add_subplot(len(views), 1, place + 1)
        _view(axes, tale, lanes, left, right)
        if title:
            axes.set_title(title, pad=14 if tale.fault else 6)
    legend(drawn, drawn.axes[:1], "lower left")
    return drawn


def _end(tale: Tale) -> float:
    ends = [bar.end for bar in tale.bars]
    if tale.down is not None and tale.down.end is not None:
        ends.append(tale.down.end)
    return max(ends)


def _around(tale: Tale, begin: float, end: float) -> tuple[float, float] | None:
    """From a little before the fault to a little after everything that it caused."""
    if tale.fault is None:
        return None
    times = [m.seconds for m in tale.moments if m.seconds is not None and m.seconds < 300]
    last = max(times, default=0.0)
    margin = max(1.0, 0.35 * last)
    return max(begin, -margin), min(end, last + margin)


def _lanes(tale: Tale) -> dict[str, int]:
    """Service -> how many bars of it can stand beside each other at one time, at least one."""
    found = {}
    for service in tale.services:
        per_attempt = [
            sum(b.service == service and b.attempt == a for b in tale.bars)
            for a in {b.attempt for b in tale.bars}
        ]
        found[service] = max(1, *per_attempt)
    return found


def _view(axes: Any, tale: Tale, lanes: dict[str, int], left: float, right: float) -> None:
    rows, top = {}, sum(lanes.values())
    for service, count in lanes.items():
        top -= count
        rows[service] = top
    width = right - left
    for bar in tale.bars:
        _bar(axes, tale, bar, rows[bar.service], left, right)
    down = tale.down
    if down is not None and down.service in rows:
        until = right + width if down.end is None else down.end
        axes.broken_barh(
            [(down.begin, until - down.begin)], (rows[down.service] + 0.06, lanes[down.service] - 0.12),
            facecolor="#F1F1F1", edgecolor=QUIET, hatch="xxx", linewidth=0.8, zorder=2,
            label="node down" if down.lost else "fault lasts",
        )  # fmt: skip
    for row in list(rows.values())[:-1]:
        axes.axhline(row, color="#D4D7DC", linewidth=0.8, zorder=0)
    total = sum(lanes.values())
    axes.set_ylim(0, total)
    axes.set_yticks([row + lanes[service] / 2 for service, row in rows.items()], list(rows))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left - 0.01 * width, right + 0.01 * width)
    if tale.fault is not None:
        fault_line(axes, 0.0, label=f"fault: {tale.fault['kind']} {tale.fault['target']}")
    axes.set_xlabel("seconds after the fault" if tale.fault else "seconds after the start of training")


def _bar(axes: Any, tale: Tale, bar: Bar, row: int, left: float, right: float) -> None:
    same = sorted(b.rank for b in tale.bars if (b.service, b.attempt) == (bar.service, bar.attempt))
    lane = row + len(same) - 1 - same.index(bar.rank)
    place = bar.attempt - 1
    axes.broken_barh(
        [(bar.begin, max(bar.end - bar.begin, 0.004 * (right - left)))], (lane + 0.16, 0.68),
        facecolor=of(COLOURS, place), edgecolor="white", hatch=of(HATCHES, place), linewidth=0.8, zorder=3,
        label=f"attempt {bar.attempt}",
    )  # fmt: skip
    if len(bar.reports) <= LEGIBLE_TICKS:
        seen = [at for at in bar.reports if bar.begin <= at <= bar.end]
        axes.vlines(seen, lane + 0.16, lane + 0.3, color="white", linewidth=1.4, zorder=4)
    begin, end = max(bar.begin, left), min(bar.end, right)
    share = (end - begin) / (right - left)
    text = f"attempt {bar.attempt}, rank {bar.rank}" if share > 0.22 else f"rank {bar.rank}"
    if share > 0.09:
        axes.text(
            (begin + end) / 2, lane + 0.54, text, ha="center", va="center", fontsize=8.5, color=INK, zorder=5,
            clip_on=True,
            bbox={"boxstyle": "round,pad=0.22", "facecolor": "white", "edgecolor": "none", "alpha": 0.92},
        )  # fmt: skip


def alt(tale: Tale) -> str:
    """Who trained when, in words."""
    told = [
        f"attempt {b.attempt} rank {b.rank} on {b.service}, {labels.after(b.begin)} to {labels.after(b.end)}"
        for b in tale.bars
    ]
    text = f"Which worker trained when: {'; '.join(told)}."
    if tale.down is not None:
        until = "the end" if tale.down.end is None else labels.after(tale.down.end)
        text += f" {tale.down.service} was {'down' if tale.down.lost else 'under the fault'} until {until}."
    return text


def draw_ranks(tale: Tale) -> Any:
    """How many ranks trained over time; nothing where that never changed."""
    if not tale.ranks:
        return None
    drawn = figure(1.7)
    axes = drawn.add_subplot()
    end = max(_end(tale) if tale.bars else 0.0, tale.ranks[-1][0])
    times = [at for at, _ in tale.ranks] + [end]
    counts = [ranks for _, ranks in tale.ranks]
    axes.stairs(counts, times, color=COLOURS[0], linewidth=2.4, baseline=None)
    axes.fill_between(
        times,
        [*counts, counts[-1]],
        step="post",
        facecolor="#D6E8F4",
        edgecolor=COLOURS[0],
        hatch="///",
        lw=0,
    )
    for at, count, until in zip(times, counts, times[1:], strict=False):
        axes.annotate(
            str(count), ((at + until) / 2, count), xytext=(0, 3), textcoords="offset points", ha="center",
            fontweight="bold",
        )  # fmt: skip
    if tale.fault is not None:
        fault_line(axes)
    axes.set_ylim(0, max(counts) + 0.6)
    axes.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_ylabel("ranks")
    axes.set_xlabel("seconds after the fault" if tale.fault else "seconds after the start of training")
    return drawn


def alt_ranks(tale: Tale) -> str:
    """The world size over time, in words."""
    told = ", ".join(f"{labels.plural(ranks, 'rank')} from {labels.after(at)} on" for at, ranks in tale.ranks)
    return f"How many ranks trained: {told}."
