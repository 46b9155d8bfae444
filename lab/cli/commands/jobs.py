"""jobs, job, checkpoints, workloads: what runs in the lab and what it saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from lab.cli import documents, render, text
from lab.cli.context import App, LabCommand, LabGroup, pass_app
from lab.errors import LabError

if TYPE_CHECKING:
    from lab.allocation import Waiting
    from lab.jobs import Job
    from lab.lab import Lab


@click.command(cls=LabCommand)
@pass_app
def jobs(app: App) -> None:
    """List the jobs, newest first."""
    lab = app.open().lab
    found = lab.jobs.list()
    waiting, problem = _waiting(lab, found)
    if app.out.json_wanted:
        rows = [
            {**documents.job(job), "waiting": documents.waiting(waiting.get(job.submission_id))}
            for job in found
        ]
        app.out.document({"jobs": rows, **({"problem": problem} if problem else {})})
    elif found:
        render.show_jobs(app.out, found, waiting)
    else:
        app.out.line("no jobs yet")
        app.out.note("start one: labctl submit digits")
    if problem and not app.out.json_wanted:
        app.out.warn(f"which jobs wait, and why, is not known: {problem}")


def _waiting(lab: Lab, jobs: Iterable[Job]) -> tuple[dict[str, Waiting], str]:
    """Which of the jobs wait, and what kept labctl from finding out. Of ended jobs Ray is not asked."""
    if all(job.final for job in jobs):
        return {}, ""
    try:
        return lab.waiting_jobs(), ""
    except LabError as error:
        return {}, error.message


@click.group(cls=LabGroup)
def job() -> None:
    """Show one job, its log, or stop it."""


@job.command("show")
@click.argument("job_id", metavar="ID", help="A job; see `labctl jobs`.")
@pass_app
def job_show(app: App, job_id: str) -> None:
    """Show a job and where it runs."""
    lab = app.open().lab
    found = lab.jobs.get(job_id)
    placement = None
    waiting, problem = _waiting(lab, [found])
    waits = waiting.get(job_id)
    if not found.final:
        try:
            placement = lab.placement(job_id)
        except LabError as error:
            problem = error.message
    if app.out.json_wanted:
        where = documents.placement(placement) if placement else None
        reason = documents.waiting(waits)
        app.out.document({**documents.job(found), "waiting": reason, "placement": where, "problem": problem})
        return
    rows: Iterable[tuple[str, Any]] = (
        ("job", found.submission_id),
        ("name", found.metadata.get("job_name")),
        ("status", found.status),
        ("workload", found.workload),
        ("command", found.entrypoint),
        ("started", text.clock(found.started_at)),
        ("ended", text.clock(found.ended_at)),
        (
            "took",
            text.seconds(found.ended_at - found.started_at) if found.ended_at and found.started_at else "",
        ),
        ("asks for", text.resources({"CPU": found.num_cpus, "GPU": found.num_gpus})),
        ("exit code", found.exit_code),
        ("message", text.first_line(found.message)),
        ("driver on", placement.driver if placement else ""),
        (
            "runs on",
            ", ".join(f"{where} (rank {rank})" for rank, where in placement.workers) if placement else "",
        ),
        ("waits", f"{waits.kind}: {waits.text}" if waits else ""),
        ("problem", problem),
    )
    render.pairs(app.out, rows)


@job.command("logs")
@click.argument("job_id", metavar="ID", help="A job; see `labctl jobs`.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, or Ctrl-C.")
@pass_app
def job_logs(app: App, job_id: str, follow: bool) -> None:
    """Print what a job's driver wrote. With --json and -f, a JSON document a line."""
    found = app.open().lab.jobs
    if not follow:
        lines = found.logs(job_id).splitlines()
        if app.out.json_wanted:
            app.out.document({"submission_id": job_id, "lines": lines})
        for line in () if app.out.json_wanted else lines:
            app.out.raw_line(line)
        return
    for line in found.follow(job_id):
        if app.out.json_wanted:
            app.out.document({"submission_id": job_id, "line": line}, compact=True)
        else:
            app.out.log_line(line)


@job.command("stop")
@click.argument("job_id", metavar="ID", help="A job; see `labctl jobs`.")
@pass_app
def job_stop(app: App, job_id: str) -> None:
    """Stop a job. One that has ended stays as it is."""
    stopped = app.open().lab.jobs.stop(job_id)
    if app.out.json_wanted:
        app.out.document(documents.job(stopped))
    else:
        app.out.line(f"job {job_id}: {stopped.status}")


@click.command(cls=LabCommand)
@click.argument("job_id", metavar="[JOB]", required=False, help="A job; see `labctl jobs`.")
@pass_app
def checkpoints(app: App, job_id: str | None) -> None:
    """List the checkpoints of one job or of all."""
    found = app.open().lab.checkpoints(job_id)
    if app.out.json_wanted:
        app.out.document({"job": job_id, "checkpoints": [documents.checkpoint(c) for c in found]})
        return
    if not found:
        app.out.line(f"job {job_id} has no checkpoint" if job_id else "no checkpoints yet")
        return
    rows = (
        (c.run, c.name, c.epoch, text.size(c.size), text.clock(c.modified), (c.sha256 or "")[:12], c.job)
        for c in found
    )
    app.out.show(render.table(("RUN", "CHECKPOINT", "EPOCH", "SIZE", "SAVED", "SHA-256", "JOB"), rows))


@click.command(cls=LabCommand)
@pass_app
def workloads(app: App) -> None:
    """List the workloads and what -p can set in each."""
    from lab.workloads import workloads as known

    found = known()
    if app.out.json_wanted:
        app.out.document({"workloads": [documents.workload(w) for w in found]})
        return
    for item in found:
        app.out.line(f"{item.name}: {item.summary}")
        rows = (
            (f"  -p {p.name}=", "" if p.default is None else p.default, p.type, p.help)
            for p in item.parameters
        )
        app.out.show(render.table(("  PARAMETER", "DEFAULT", "TYPE", "WHAT IT IS"), rows))


COMMANDS = (jobs, job, checkpoints, workloads)
