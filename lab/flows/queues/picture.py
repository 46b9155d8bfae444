"""The picture of a simulation: a row for each ClusterQueue, a bar for each stretch that a workload held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kueue.model import quotas
from kueue.simulate import Simulation
from lab.flows.report.draw.style import (
    COLOURS,
    FAULT,
    HATCHES,
    INK,
    QUIET,
    figure,
    of,
    render,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 300
"""With more of them, a row shows only how much is used."""

MOST_QUEUES = 30

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


def draw(simulation: Simulation) -> tuple[bytes, str] | None:
    """The picture as SVG, and what it shows in words; nothing where no queue has a quota."""
    resource = _resource(simulation)
    names = list(simulation.engine.setup.cluster_queues)[:MOST_QUEUES]
    if not resource or not names:
        return None
    scale = 1000 if resource == "cpu" else 1
    rows = {name: bars(simulation, name, resource, scale) for name in names}
    places = {key: place for place, key in enumerate(simulation.engine.items)}
    with styled():
        drawn = figure(0.5 + 1.15 * len(names))
        grid = drawn.subplots(len(names), 1, squeeze=False, sharex=True)
        for (axes,), name in zip(grid, names, strict=True):
            nominal = _nominal(simulation, name, resource) / scale
            if sum(map(len, rows.values())) > MOST_BARS:
                _used(axes, simulation, name, resource, scale)
            else:
                _bars(axes, rows[name], places, simulation.end)
            axes.axhline(nominal, color=INK, linewidth=1, linestyle=(0, (4, 2)), zorder=5)
            axes.set_title(f"{name}: quota {nominal:g}", fontsize=9)
            axes.set_ylim(0, _height(simulation, name, resource, scale, nominal))
            axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)
            axes.grid(visible=False, axis="y")
        grid[-1][0].set_xlim(0, max(simulation.end, 1.0))
        grid[-1][0].set_xlabel(f"seconds after the start; height: {resource}, dashed: quota of the queue")
        return render(drawn, "svg"), _alt(simulation, rows, resource)


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


def _bars(axes: Axes, row: list[WorkloadBar], places: dict[str, int], end: float) -> None:
    for bar in row:
        at = places[bar.workload]
        axes.broken_barh(
            [(bar.begin, bar.end - bar.begin)], (bar.low, bar.high), facecolor=of(COLOURS, at),
            hatch=of(HATCHES, at // len(COLOURS)), edgecolor="white", linewidth=1, alpha=0.85,
        )  # fmt: skip
        name = bar.workload.partition("/")[2]
        if bar.end - bar.begin >= 0.012 * len(name) * max(end, 1.0):
            axes.text(
                bar.begin + (bar.end - bar.begin) / 2, bar.low + bar.high / 2, name.replace("$", r"\$"),
                ha="center", va="center", fontsize=7.5, clip_on=True,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
            )  # fmt: skip
        if bar.preempted:
            axes.plot(
                [bar.end], [bar.low + bar.high / 2], marker="X", markersize=8, color=FAULT, zorder=6,
                linestyle="none", clip_on=False,
            )  # fmt: skip


def _used(axes: Axes, simulation: Simulation, name: str, resource: str, scale: int) -> None:
    seen = [
        (at, sum(value for place, value in used.items() if place.resource == resource) / scale)
        for at, used in simulation.usage.get(name, [])
    ]
    seen.append((simulation.end, seen[-1][1] if seen else 0.0))
    times, values = zip(*seen, strict=True)
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
        f"{name}: {len(row)} stretches, {sum(bar.preempted for bar in row)} of them ended by preemption"
        for name, row in rows.items()
    ]
    return f"{resource} in use over {simulation.end:g} seconds, queue by queue. {'; '.join(sentences)}."
