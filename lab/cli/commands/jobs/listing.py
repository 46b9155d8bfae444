"""jobs, jobs checkpoints: what the lab has run, and what was saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import click

from lab.api.queue import Row
from lab.cli import documents, format, queue_words, render, values
from lab.cli.context import App, LabCommand, pass_app
from lab.cluster.jobs import Job
from lab.errors import LabError, RefusedError, StoreError, UnsupportedError
from lab.host.quantities import plural

if TYPE_CHECKING:
    from lab.api.shown import ShownJobs
    from lab.cluster.allocation import Waiting
    from lab.lab import Lab

QUEUED_SHOWN = 20
"""Jobs that wait in queues, of which `jobs` shows a line each."""


def overview(app: App) -> None:
    """List the jobs, newest first, then those of an earlier cluster, then those that wait in queues."""
    lab = app.open()
    listed = lab.jobs.list()
    waiting, problem = waiting_of(lab, listed)
    missing = ""
    try:
        listed = (*listed, *lab.earlier_jobs(listed))
    except UnsupportedError:  # the ledgers are out of reach
        pass
    except StoreError as error:
        missing = f"jobs of an earlier cluster are not known: {error.message}"
    queued, silent = _in_queues(lab)
    missing = "; ".join(filter(None, (missing, silent)))
    if app.out.json_wanted:
        document: ShownJobs = {
            "jobs": [
                {**documents.job(job), "waiting": documents.waiting(waiting.get(job.submission_id))}
                for job in listed
            ]
        }
        if queued:
            document["queued"] = queued
        if said := "; ".join(filter(None, (problem, missing))):
            document["problem"] = said
        app.out.document(document)
    elif listed or queued:
        if listed:
            render.show_jobs(app.out, listed, waiting)
        for workload in queued[:QUEUED_SHOWN]:
            where = queue_words.place(workload) or f"in LocalQueue {workload.local_queue}"
            why = ": ".join(filter(None, (workload.reason or "not tried yet", workload.waits)))
            app.out.sentence(f"job {workload.name} waits: {where}; {why}")
        if len(queued) > QUEUED_SHOWN:
            app.out.advise(f"and {len(queued) - QUEUED_SHOWN} more wait: labctl queue list --status pending")
    else:
        app.out.line("no jobs yet")
        app.out.note("start one: labctl submit digits")
    if problem and not app.out.json_wanted:
        app.out.warn(f"cannot tell which jobs wait, and why: {problem}")
    if missing and not app.out.json_wanted:
        app.out.warn(missing)


def _in_queues(lab: Lab) -> tuple[Sequence[Row], str]:
    """The jobs that wait in queues, and why they are not known."""
    try:
        return lab.queues.list(status="pending").workloads, ""
    except UnsupportedError:  # a lab without queues
        return (), ""
    except LabError as error:
        return (), f"jobs that wait in queues are not known: {error.message}"


def waiting_of(lab: Lab, jobs: Iterable[Job]) -> tuple[dict[str, Waiting], str]:
    """The jobs that wait, and why that is not known. Of ended jobs Ray is not asked."""
    if all(job.final for job in jobs):
        return {}, ""
    try:
        return lab.waiting_jobs(), ""
    except RefusedError:  # a person of a class does not see who holds what; the queues say why a job waits
        return {}, ""
    except LabError as error:
        return {}, error.message


@click.command(cls=LabCommand)
@click.argument(
    "job_id", type=values.Text(), metavar="[JOB]", required=False, help="A job; see `labctl jobs`."
)
@pass_app
def checkpoints(app: App, job_id: str | None) -> None:
    """List the checkpoints of one job or of all; on a narrow terminal run by run.

    Those that were committed elsewhere than in the lab's object store, as in a folder of the nodes, are
    listed as their jobs recorded them: whether they are still there is not asked.
    """
    stored = app.open().checkpoints(job_id)
    if app.out.as_json({"job": job_id, "checkpoints": [documents.checkpoint(c) for c in stored]}):
        return
    if not stored:
        app.out.line(f"job {job_id} has no checkpoint" if job_id else "no checkpoints yet")
        return
    rows = tuple(
        (c.run, c.name, c.epoch, format.size(c.size), format.clock(c.modified), (c.sha256 or "")[:12], c.job)
        for c in stored
    )
    columns = ("RUN", "CHECKPOINT", "EPOCH", "SIZE", "SAVED", "SHA-256", "JOB")
    whole = render.table(columns, rows)
    if whole.width <= app.out.width():
        app.out.show(whole)
        rows = ()
    for (run, job), below in groupby(rows, key=lambda row: (row[0], row[-1])):
        app.out.line(f"run {run}" + (f" of job {job}" if job else ""))
        short = ((name, epoch, size, saved[-8:], digest) for _, name, epoch, size, saved, digest, _ in below)
        app.out.show(render.table(columns[1:-1], short))
    # Their folder is that of a run, the one above that of all runs of a script.
    elsewhere = [checkpoint.uri.rsplit("/", 2)[0] for checkpoint in stored if not checkpoint.in_store]
    for folder, count in Counter(elsewhere).items():
        app.out.note(f"{plural(count, 'checkpoint')} not in the lab's object store, but below {folder}")


COMMANDS = (checkpoints,)
