"""The page about a simulation: one HTML file with everything in it."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from lab.flows.queues.picture import draw
from lab.flows.report.css import CSS
from lab.queue.simulate import Simulation
from lab.queue.trace import document
from lab.version import __version__

MOST_ROWS = 500
"""Rows of a table."""


def page(found: Simulation) -> str:
    """The simulation as HTML, complete in itself."""
    told = document(found)
    parts = [
        "<h1>Simulated queues</h1>",
        _facts(told),
        _picture(found),
        _section("Queues", ("queue", "cohort", "pending", "admitted", "share", "state"), _queues(told)),
        _section("Workloads", ("workload", "queue", "state", "waited", "preempted", "why"), _workloads(told)),
        _section("Events", ("seconds", "event", "workload", "queue", "reason", "message"), _events(told)),
    ]
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Simulated queues</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<footer>Made by labctl {escape(__version__)}. Seconds count from the start of the simulation"
        f"{', ' + escape(told['start']) if told['start'] else ''}.</footer>\n</body>\n</html>\n"
    )


def _facts(told: dict[str, Any]) -> str:
    events = Counter(each["event"] for each in told["events"])
    facts = {
        "simulated": f"{told['end']:g} s",
        "workloads": str(len(told["workloads"])),
        "admissions": str(events["Admitted"]),
        "preemptions": str(events["Preempted"]),
        "finished": str(events["Finished"]),
        "cycles": str(told["cycles"]),
    }
    shown = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{shown}</dl>'


def _picture(found: Simulation) -> str:
    drawn = draw(found)
    if drawn is None:
        return ""
    svg, alt = drawn
    data = base64.b64encode(svg).decode("ascii")
    words = "A cross marks a preemption. What lies above the dashed line is borrowed."
    return (
        "<section><h2>Who had what when</h2>"
        f'<p class="lead">{words}</p>'
        f'<figure><img alt="{escape(alt)}" src="data:image/svg+xml;base64,{data}"></figure></section>'
    )


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    every = list(rows)
    cells = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in every[:MOST_ROWS]
    )
    more = f"<p>And {len(every) - MOST_ROWS} more.</p>" if len(every) > MOST_ROWS else ""
    named = "".join(f"<th>{head}</th>" for head in heads)
    table = f'<div class="scroll"><table><thead><tr>{named}</tr></thead><tbody>{cells}</tbody></table></div>'
    return f"<section><h2>{title}</h2>{table}{more}</section>"


def _queues(told: dict[str, Any]) -> Iterable[Sequence[str]]:
    for each in told["cluster_queues"]:
        share = "infinite" if each["weighted_share"] is None else str(each["weighted_share"])
        state = "active" if each["active"] else each["message"]
        yield each["name"], each["cohort"], str(each["pending"]), str(each["admitted"]), share, state


def _workloads(told: dict[str, Any]) -> Iterable[Sequence[str]]:
    for each in told["workloads"]:
        waited = "" if each["waited"] is None else f"{each['waited']:g} s"
        why = f"{each['reason']}: {each['message']}" if each["message"] else each["reason"]
        yield (
            each["workload"],
            each["cluster_queue"],
            each["state"],
            waited,
            str(each["preemptions"]),
            why,
        )


def _events(told: dict[str, Any]) -> Iterable[Sequence[str]]:
    for each in told["events"]:
        yield (
            f"{each['at']:g}",
            each["event"],
            each["workload"],
            each["cluster_queue"],
            each["reason"],
            each["message"],
        )
