"""What several commands show: a lab, jobs, pairs of names and values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lab.cli import format
from lab.cli.tables import Grid
from lab.host.quantities import plural

if TYPE_CHECKING:
    from lab.cli.output import Output
    from lab.cluster.allocation import Waiting
    from lab.cluster.api import Node
    from lab.cluster.jobs import Job
    from lab.topology import LabStatus

WIDE = 160
"""Minimum width of a terminal, in columns, for a table with a sentence in it."""

SENTENCES = 2000
"""Width outside of a terminal, in columns, for lines with a sentence in them."""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Grid:
    """A table; a cell that is a known state has its colour, None is empty."""
    return Grid(tuple(columns), tuple(tuple(_cell(value) for value in row) for row in rows))


def _cell(value: object) -> str:
    return "" if value is None else format.harmless(str(value))


def headline(status: LabStatus) -> str:
    """The lab in one line."""
    if not status.up:
        return f"lab {status.name} is down"
    ill = [s.service for s in status.services if s.state.value != "healthy"]
    state = f"up, but not healthy: {', '.join(ill)}" if ill else "up and healthy"
    gpu = status.gpu.vendor.value
    return f"lab {status.name} is {state} (runtime {status.runtime}, GPU: {gpu})"


def show_lab(
    out: Output,
    status: LabStatus,
    nodes: Sequence[Node] = (),
    jobs: Sequence[Job] | None = None,
    problems: Sequence[str] = (),
    health: Mapping[str, str] | None = None,
) -> None:
    """Services, nodes with their health, running jobs and notes."""
    out.sentence(headline(status))
    if status.services:
        out.line()
        out.show(
            table(
                ("SERVICE", "STATE", "URL", "DETAIL"),
                (
                    (s.service, s.state.value, format.without_secrets(s.url), s.detail)
                    for s in status.services
                ),
            )
        )
    alive = [n for n in nodes if n.alive]
    if alive:
        out.line()
        out.show(
            table(
                ("NODE", "OFFERS", "ID", *(("HEALTH",) if health else ())),
                (
                    (
                        *(n.service, format.resources(n.resources), n.node_id[:12]),
                        *((health.get(n.service, "UNKNOWN"),) if health else ()),
                    )
                    for n in alive
                ),
            )
        )
        dead = len(nodes) - len(alive)
        if dead:
            out.sentence(f"{plural(dead, 'node')} of this lab died earlier")
    if jobs:
        out.line()
        show_jobs(out, jobs)
    elif jobs is not None and status.up and not problems:
        out.line()
        out.line("no job is running")
    for note in status.notes:
        out.sentence(f"note: {note}")
    for problem in problems:
        out.sentence(f"problem: {problem}")


def what(job: Job) -> str:
    """Recipe or command of a job, and its name; of an earlier job, how it ended."""
    if job.earlier:
        return format.first_line(job.message)
    name = job.metadata.get("job_name", "")
    return f"{job.recipe or job.entrypoint}{f' ({name})' if name else ''}"


def took(job: Job, now: float) -> str:
    """Duration of a job so far; empty where it is not known."""
    if job.started_at is None or (job.earlier and job.ended_at is None):
        return ""
    return format.seconds(max(0.0, (job.ended_at or now) - job.started_at))


def show_jobs(out: Output, jobs: Sequence[Job], waiting: Mapping[str, Waiting] | None = None) -> None:
    """A line for each job; where one waits, the last column says why, on a narrow terminal lines below."""
    waits = {j.submission_id: w for j in jobs if (w := (waiting or {}).get(j.submission_id))}
    wide = out.width() >= WIDE
    rows = []
    for j in jobs:
        reason = waits.get(j.submission_id)
        shown = "" if reason is None else f"{reason.kind}: {reason.text}" if wide else reason.kind
        row = (j.submission_id, j.status, format.clock(j.started_at), took(j, time.time()), what(j))
        rows.append((*row, shown) if waits else row)
    columns = ("JOB", "STATUS", "STARTED", "TOOK", "RUNS")
    out.show(table((*columns, "REASON") if waits else columns, rows), width=SENTENCES)
    for item in () if wide else waits.values():
        out.sentence(format.waits(item))


def pairs(out: Output, rows: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line; empty values are left out."""
    shown = [(name, str(value)) for name, value in rows if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        out.line(f"{name:<{width}}  {value}")
