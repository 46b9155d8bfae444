"""The page about a simulation: one HTML file with everything in it, from page.html.j2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kueue.simulate import Simulation
from kueue.trace import document
from lab.flows.queues.picture import draw
from lab.flows.report.page import templates
from lab.version import __version__

MOST_ROWS = 500
"""Rows of a table."""

Rows = Iterator[tuple[str, ...]]


def page(found: Simulation) -> str:
    """The simulation as HTML, complete in itself."""
    told = document(found)
    return (
        templates(Path(__file__).parent)
        .get_template("page.html.j2")
        .render(
            facts=tuple(_facts(told)),
            picture=draw(found),
            queues=tuple(_queues(told)),
            workloads=tuple(_workloads(told)),
            events=tuple(_events(told)),
            start=told["start"],
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


def _facts(told: dict[str, Any]) -> Rows:
    events = Counter(each["event"] for each in told["events"])
    yield "simulated", f"{told['end']:g} s"
    yield "workloads", str(len(told["workloads"]))
    yield "admissions", str(events["Admitted"])
    yield "preemptions", str(events["Preempted"])
    yield "finished", str(events["Finished"])
    yield "cycles", str(told["cycles"])


def _queues(told: dict[str, Any]) -> Rows:
    for each in told["cluster_queues"]:
        share = "infinite" if each["weighted_share"] is None else str(each["weighted_share"])
        state = "active" if each["active"] else each["message"]
        yield each["name"], each["cohort"], str(each["pending"]), str(each["admitted"]), share, state


def _workloads(told: dict[str, Any]) -> Rows:
    for each in told["workloads"]:
        waited = "" if each["waited"] is None else f"{each['waited']:g} s"
        why = ": ".join(filter(None, (each["reason"], each["message"])))
        yield (
            each["workload"],
            each["cluster_queue"],
            each["state"],
            waited,
            str(each["preemptions"]),
            f"{why} ({each['waits']})" if each["waits"] else why,
        )


def _events(told: dict[str, Any]) -> Rows:
    for each in told["events"]:
        yield (
            f"{each['at']:g}",
            each["event"],
            each["workload"],
            each["cluster_queue"],
            each["reason"],
            each["message"],
        )
