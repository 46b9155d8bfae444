"""The picture of a simulation: a row for each ClusterQueue, a bar for each stretch that a workload held.

Bars have the colour of their person, which is the namespace of the workload; time is the clock's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timezone
from typing import TYPE_CHECKING

from kueue.model import quotas
from kueue.simulate import Simulation
from lab.flows.drawing import (
    COLOURS,
    FAULT,
    HATCHES,
    INK,
    QUIET,
    figure,
    legend,
    of,
    render,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 300
"""With more of them, a row shows only how much is used."""

MOST_QUEUES = 30

LEGEND_COLUMNS = 5

DAY = 86400.0
"""Seconds; matplotlib counts time in days."""

PREEMPTED = "Preempted"


@dataclass(frozen=True)
class WorkloadBar:
    """A stretch of a workload: from `low` up, `high` units thick."""

    workload: str
    begin: float
    end: float
    low: float
    high: float
    preempted: bool

    @property
    def person(self) -> str:
        """Whose it is: the namespace."""
        return self.workload.partition("/")[0]

    @property
    def name(self) -> str:
        """The workload's name, which may be that of another person's too."""
        return self.workload.partition("/")[2]


def draw(simulation: Simulation) -> tuple[bytes, str] | None:
    """The picture as SVG, and what it shows in words; nothing where no queue has a quota."""
    resource = _resource(simulation)
    names = list(simulation.engine.setup.cluster_queues)[:MOST_QUEUES]
    if not resource or not names:
        return None
    scale = 1000 if resource == "cpu" else 1
    rows = {name: bars(simulation, name, resource, scale) for name in names}
    people = sorted({bar.person for row in rows.values() for bar in row})
    one_by_one = sum(map(len, rows.values())) <= MOST_BARS
    with styled():
        keys = -(-len(people) // LEGEND_COLUMNS) if one_by_one else 0
        drawn = figure(0.6 + 1.15 * len(names) + 0.2 * keys)
        grid = drawn.subplots(len(names), 1, squeeze=False, sharex=True)
        for (axes,), name in zip(grid, names, strict=True):
            nominal = _nominal(simulation, name, resource) / scale
            if one_by_one:
                _bars(axes, rows[name], people, simulation)
            else:
                _used(axes, simulation, name, resource, scale)
            axes.axhline(nominal, color=INK, linewidth=1, linestyle=(0, (4, 2)), zorder=5)
            axes.set_title(f"{name}: quota {nominal:g}", fontsize=9)
            axes.set_ylim(0, _height(simulation, name, resource, scale, nominal))
            axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
            axes.grid(visible=False, axis="y")
        _clock(grid[-1][0], simulation)
        clock = "UTC" if simulation.start else "time since the start"
        grid[-1][0].set_xlabel(f"{clock}; height: {resource}, dashed: quota of the queue")
        if one_by_one:
            legend(drawn, [axes for (axes,) in grid], "lower left", LEGEND_COLUMNS)
        return render(drawn, "svg"), _alt(simulation, rows, resource)


def _when(simulation: Simulation, seconds: float) -> float:
    """A moment of the simulation on matplotlib's axis of time."""
    return (simulation.start + seconds) / DAY


def _clock(axes: Axes, simulation: Simulation) -> None:
    """Give the axis of time the clock's hours and minutes."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(tz=timezone.utc, minticks=3, maxticks=9)
    midnight = "%b-%d" if simulation.start else "%H:%M"  # time since the start has no date
    formatter = ConciseDateFormatter(
        locator, tz=timezone.utc, show_offset=simulation.start > 0,
        zero_formats=["", "%Y", "%b", midnight, "%H:%M", "%H:%M"],
    )  # fmt: skip
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    axes.set_xlim(_when(simulation, 0.0), _when(simulation, max(simulation.end, 1.0)))


def bars(simulation: Simulation, queue: str, resource: str, scale: int = 1) -> list[WorkloadBar]:
    """The stretches of a queue, each on the lowest free place."""
    placed: list[WorkloadBar] = []
    running: list[WorkloadBar] = []
    for span in simulation.spans:
        amount = sum(value for place, value in span.usage.items() if place.resource == resource) / scale
        if span.cluster_queue != queue or amount == 0:
            continue
        begin, end = max(0.0, span.begin), simulation.end if span.end is None else span.end
        running = sorted((bar for bar in running if bar.end > begin), key=lambda bar: bar.low)
        low = 0.0
        for neighbour in running:
            if neighbour.low - low >= amount:
                break
            low = max(low, neighbour.low + neighbour.high)
        bar = WorkloadBar(span.workload, begin, end, low, amount, span.ended_by == PREEMPTED)
        running.append(bar)
        placed.append(bar)
    return placed


def _bars(axes: Axes, row: list[WorkloadBar], people: list[str], simulation: Simulation) -> None:
    for bar in row:
        at = people.index(bar.person)
        begin, end = _when(simulation, bar.begin), _when(simulation, bar.end)
        axes.broken_barh(
            [(begin, end - begin)], (bar.low, bar.high), facecolor=of(COLOURS, at), label=bar.person,
            hatch=of(HATCHES, at // len(COLOURS)), edgecolor="white", linewidth=1, alpha=0.85,
        )  # fmt: skip
        if bar.end - bar.begin >= 0.012 * len(bar.name) * max(simulation.end, 1.0):
            axes.text(
                (begin + end) / 2, bar.low + bar.high / 2, bar.name.replace("$", r"\$"),
                ha="center", va="center", fontsize=7.5, clip_on=True,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
            )  # fmt: skip
        if bar.preempted:
            axes.plot(
                [end], [bar.low + bar.high / 2], marker="X", markersize=8, color=FAULT, zorder=6,
                linestyle="none", clip_on=False,
            )  # fmt: skip


def _used(axes: Axes, simulation: Simulation, name: str, resource: str, scale: int) -> None:
    seen = [
        (at, sum(value for place, value in used.items() if place.resource == resource) / scale)
        for at, used in simulation.usage.get(name, [])
    ]
    seen.append((simulation.end, seen[-1][1] if seen else 0.0))
    times, values = zip(*((_when(simulation, at), value) for at, value in seen), strict=True)
    axes.fill_between(times, values, step="post", color=COLOURS[0], alpha=0.6, linewidth=0)
    axes.step(times, values, where="post", color=QUIET, linewidth=0.4)


def _height(simulation: Simulation, name: str, resource: str, scale: int, nominal: float) -> float:
    seen = simulation.usage.get(name, [])
    most = max(
        (sum(value for place, value in used.items() if place.resource == resource) for _, used in seen),
        default=0,
    )
    return max(nominal, most / scale, 1.0) * 1.15


def _nominal(simulation: Simulation, name: str, resource: str) -> int:
    groups = simulation.engine.setup.cluster_queues[name].groups
    return sum(quota.nominal for place, quota in quotas(groups) if place.resource == resource)


def _resource(simulation: Simulation) -> str:
    """The resource that is drawn: GPUs, where there are quotas of them."""
    names = {
        place.resource
        for queue in simulation.engine.setup.cluster_queues.values()
        for place, _ in quotas(queue.groups)
    }
    return min(names, key=lambda name: (not name.lower().endswith("gpu"), name != "cpu", name), default="")


def _alt(simulation: Simulation, rows: dict[str, list[WorkloadBar]], resource: str) -> str:
    sentences = [
        f"{name}: {len(row)} periods, {sum(bar.preempted for bar in row)} of them ended by preemption"
        for name, row in rows.items()
    ]
    people = sorted({bar.person for row in rows.values() for bar in row})
    whose = f" Bars are coloured by person: {', '.join(people)}." if people else ""
    return (
        f"{resource} in use over {simulation.end:g} seconds, queue by queue. {'; '.join(sentences)}.{whose}"
    )
