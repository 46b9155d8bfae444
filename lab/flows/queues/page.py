"""The page about a simulation: one HTML file with everything in it, from page.html.j2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kueue.simulate import Simulation
from kueue.trace import SimulationDocument, document
from lab.flows.queues.picture import draw
from lab.host.quantities import format_duration
from lab.host.web import templates
from lab.version import __version__

MOST_ROWS = 500
"""Rows of a table."""

Rows = Iterator[tuple[str, ...]]


def page(simulation: Simulation) -> str:
    """The simulation as HTML, complete in itself."""
    results = document(simulation)
    return (
        templates(Path(__file__).parent)
        .get_template("page.html.j2")
        .render(
            facts=tuple(_facts(results)),
            picture=draw(simulation),
            queues=tuple(_queues(results)),
            workloads=tuple(_workloads(results)),
            events=tuple(_events(results)),
            start=results.start,
            most=MOST_ROWS,
            version=__version__,
        )
    )


def write(path: Path, text: str) -> None:
    """Replace `path` by a page in one step: it is never half written. Raises OSError."""
    path = path.resolve()
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _facts(results: SimulationDocument) -> Rows:
    events = Counter(event.event for event in results.events)
    yield "simulated", format_duration(results.end)
    yield "workloads", str(len(results.workloads))
    yield "admissions", str(events["Admitted"])
    yield "preemptions", str(events["Preempted"])
    yield "finished", str(events["Finished"])
    yield "cycles", str(results.cycles)


def _queues(results: SimulationDocument) -> Rows:
    for queue in results.cluster_queues:
        share = "infinite" if queue.weighted_share is None else str(queue.weighted_share)
        state = "active" if queue.active else queue.message
        yield queue.name, queue.cohort, str(queue.pending), str(queue.admitted), share, state


def _workloads(results: SimulationDocument) -> Rows:
    for workload in results.workloads:
        waited = "" if workload.waited is None else format_duration(workload.waited)
        why = ": ".join(filter(None, (workload.reason, workload.message)))
        yield (
            workload.workload,
            workload.cluster_queue,
            workload.state,
            waited,
            str(workload.preemptions),
            f"{why} ({workload.waits})" if workload.waits else why,
        )


def _events(results: SimulationDocument) -> Rows:
    for event in results.events:
        yield (
            f"{event.at:g}",
            event.event,
            event.workload,
            event.cluster_queue,
            event.reason,
            event.message,
        )
