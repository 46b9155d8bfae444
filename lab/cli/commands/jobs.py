"""jobs, job, checkpoints, recipes: jobs of the lab, and what they saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from lab.cli import documents, format, queue_words, render, values
from lab.cli.commands import batches
from lab.cli.context import App, LabCommand, LabGroup, pass_app
from lab.cli.queued_jobs import QUEUED, Follower, attempts, cancelled, newest, queued_job
from lab.cluster.explain import of_waiting
from lab.errors import LabError, NotFoundError, StoreError, UnsupportedError

if TYPE_CHECKING:
    from lab.api.queue import Description, Row
    from lab.cluster.allocation import Waiting
    from lab.cluster.jobs import Job
    from lab.lab import Lab

QUEUED_SHOWN = 20
"""Jobs that wait in queues, of which `jobs` shows a line each."""


@click.command(cls=LabCommand)
@pass_app
def jobs(app: App) -> None:
    """List the jobs, newest first, then those of an earlier cluster.

    Those that wait in queues follow, a line each.
    """
    lab = app.open()
    listed = lab.jobs.list()
    waiting, problem = _waiting(lab, listed)
    missing = ""
    try:
        listed = (*listed, *lab.earlier_jobs(listed))
    except StoreError as error:
        missing = f"jobs of an earlier cluster are not known: {error.message}"
    queued, silent = _in_queues(lab)
    missing = "; ".join(filter(None, (missing, silent)))
    if app.out.json_wanted:
        rows = [
            {**documents.job(job), "waiting": documents.waiting(waiting.get(job.submission_id))}
            for job in listed
        ]
        said = "; ".join(filter(None, (problem, missing)))
        app.out.document(
            {"jobs": rows, **({"queued": queued} if queued else {}), **({"problem": said} if said else {})}
        )
    elif listed or queued:
        if listed:
            render.show_jobs(app.out, listed, waiting)
        for workload in queued[:QUEUED_SHOWN]:
            where = queue_words.place(workload) or f"in LocalQueue {workload.local_queue}"
            why = ": ".join(filter(None, (workload.reason or "not tried yet", workload.waits)))
            app.out.line(f"job {workload.name} waits: {where}; {why}")
        if len(queued) > QUEUED_SHOWN:
            app.out.advise(f"and {len(queued) - QUEUED_SHOWN} more wait: labctl queue list --status pending")
    else:
        app.out.line("no jobs yet")
        app.out.note("start one: labctl submit digits")
    if problem and not app.out.json_wanted:
        app.out.warn(f"which jobs wait, and why, is not known: {problem}")
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


def _waiting(lab: Lab, jobs: Iterable[Job]) -> tuple[dict[str, Waiting], str]:
    """The jobs that wait, and why that is not known. Of ended jobs Ray is not asked."""
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
@click.argument("job_id", type=values.Text(), metavar="ID", help="A job; see `labctl jobs`.")
@pass_app
def job_show(app: App, job_id: str) -> None:
    """Show a job, where it runs, and the attempts that it lost without a recorded fault."""
    from lab.flows.recovery.lost import lost_without_fault, recorded_faults

    lab = app.open()
    queued, silent = queued_job(lab, job_id)
    selected = _job(lab, job_id, queued, silent)
    if queued is not None and selected.status == QUEUED:
        _show_queued(app, lab, queued, selected)
        return
    job_id, placement = selected.submission_id, None
    waiting, problem = _waiting(lab, [selected])
    waits = waiting.get(job_id)
    why = of_waiting(waits.reason) if waits and waits.kind == "infeasible" else lab.why_failed(selected)
    if not selected.final:
        try:
            placement = lab.placement(job_id)
        except LabError as error:
            problem = error.message
    lost: tuple[str, ...] = ()
    try:
        lost = lost_without_fault(lab.history(job_id), recorded_faults(lab.store, job_id))
    except LabError as error:
        problem = problem or error.message
    if app.out.json_wanted:
        more = {
            "waiting": documents.waiting(waits),
            "placement": documents.placement(placement) if placement else None,
            "lost_attempts": list(lost),
            "problem": problem,
            "explanation": documents.explanation(why),
            **({} if queued is None else {"queue": queued}),
        }
        app.out.document({**documents.job(selected), **more})
        return
    rows: Iterable[tuple[str, object]] = (
        ("job", selected.submission_id),
        ("name", selected.metadata.get("job_name")),
        ("status", selected.status),
        ("recipe", selected.recipe),
        ("command", selected.entrypoint),
        ("started", format.clock(selected.started_at)),
        ("ended", format.clock(selected.ended_at)),
        ("took", render.took(selected, selected.ended_at) if selected.ended_at else ""),
        ("asks for", format.resources({"CPU": selected.num_cpus, "GPU": selected.num_gpus})),
        ("exit code", selected.exit_code),
        ("message", format.first_line(selected.message)),
        ("driver on", placement.driver if placement else ""),
        (
            "runs on",
            ", ".join(f"{where} (rank {rank})" for rank, where in placement.workers) if placement else "",
        ),
        ("lost", "; ".join(lost)),
        ("waits", f"{waits.kind}: {waits.text}" if waits else ""),
        ("problem", problem),
        ("cause", why.summary if why else ""),
        ("what to do", why.advice if why else ""),
        *(queue_words.in_short(queued) if queued is not None else ()),
    )
    render.pairs(app.out, rows)


def _job(lab: Lab, job_id: str, queued: Description | None, silent: LabError | None) -> Job:
    """The job, as Ray knows its newest attempt or else as the queues know it. Raises NotFoundError."""
    if queued is not None:
        return newest(lab, queued, job_id)
    try:
        return lab.job(job_id)
    except NotFoundError as error:
        if silent is None:
            raise
        raise NotFoundError(
            error.message, f"if it is in a queue, that cannot be seen now: {silent.message}"
        ) from silent


def _show_queued(app: App, lab: Lab, queued: Description, job: Job) -> None:
    """Show a job of which Ray has nothing: it waits, or waits again."""
    why = lab.queues.why(queued.workload)
    if app.out.json_wanted:
        more: dict[str, Any] = {
            "waiting": None,
            "placement": None,
            "lost_attempts": [],
            "problem": "",
            "explanation": None,
        }
        app.out.document({**documents.job(job), **more, "queue": queued, "why": why})
        return
    skipped = ("reason", "place", "problem")
    rows = [row for row in queue_words.job_rows(queued) if row[0] not in skipped]
    render.pairs(app.out, [*rows, *queue_words.why_rows(why)])


@job.command("logs")
@click.argument("job_id", type=values.Text(), metavar="ID", help="A job; see `labctl jobs`.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, or Ctrl-C.")
@pass_app
def job_logs(app: App, job_id: str, follow: bool) -> None:
    """Print what a job's driver wrote. With --json and -f, a JSON document a line."""
    lab = app.open()
    queued, silent = queued_job(lab, job_id)
    if queued is not None:
        _queued_logs(app, lab, queued, job_id, follow)
        return
    _refuse_earlier(lab, job_id, "what Ray kept of its output is gone", silent)
    client = lab.jobs
    if not follow:
        lines = client.logs(job_id).splitlines()
        if app.out.json_wanted:
            app.out.document({"submission_id": job_id, "lines": lines})
        for line in () if app.out.json_wanted else lines:
            app.out.raw_line(line)
        return
    for line in client.follow(job_id, on_outage=app.out.note):
        _log_line(app, job_id, line)


def _queued_logs(app: App, lab: Lab, queued: Description, job_id: str, follow: bool) -> None:
    """Print the logs of a queued job's attempts, one after the other."""
    out, lines = app.out, []
    if follow and job_id in (queued.name, queued.workload):
        follower = Follower(lab, queued.workload, app.clock, out.note)
        for line in follower.lines():
            _log_line(app, job_id, line)
        return
    ids = attempts(queued, job_id)
    for attempt in ids:
        if len(ids) > 1:
            out.note(f"attempt {attempt}:")
        try:
            log = (
                lab.jobs.follow(attempt, on_outage=out.note)
                if follow
                else lab.jobs.logs(attempt).splitlines()
            )
            for line in log:
                lines.append(line)
                if follow or not out.json_wanted:
                    _log_line(app, job_id, line)
        except NotFoundError:
            out.warn(f"the log of attempt {attempt} is gone with the head that ran it")
    if not ids:
        out.note(f"job {queued.workload} has not run yet: labctl queue why {queued.name}")
    if out.json_wanted and not follow:
        out.document({"submission_id": job_id, "lines": lines})


def _log_line(app: App, job_id: str, line: str) -> None:
    if not app.out.as_json({"submission_id": job_id, "line": line}, compact=True):
        app.out.log_line(line)


@job.command("stop")
@click.argument("job_id", type=values.Text(), metavar="ID", help="A job; see `labctl jobs`.")
@pass_app
def job_stop(app: App, job_id: str) -> None:
    """Stop a job, or take it out of its queue. One that has ended stays as it is."""
    lab = app.open()
    queued, silent = queued_job(lab, job_id)
    if queued is not None:
        described = cancelled(lab, queued, app.clock)
        stopped = newest(lab, described, job_id)
    else:
        _refuse_earlier(lab, job_id, "nothing of it runs", silent)
        stopped = lab.jobs.stop(job_id)
    if not app.out.as_json(documents.job(stopped)):
        app.out.line(f"job {job_id}: {stopped.status}")


def _refuse_earlier(lab: Lab, job_id: str, why: str, silent: LabError | None) -> None:
    """Refuse a job of an earlier cluster, and one that nobody knows. Raises NotFoundError."""
    if _job(lab, job_id, None, silent).earlier:
        raise NotFoundError(
            f"job {job_id} ran before Ray's head was restarted: {why}",
            f"its ledger: labctl job show {job_id}; labctl checkpoints {job_id}",
        )


@click.command(cls=LabCommand)
@click.argument(
    "job_id", type=values.Text(), metavar="[JOB]", required=False, help="A job; see `labctl jobs`."
)
@pass_app
def checkpoints(app: App, job_id: str | None) -> None:
    """List the checkpoints of one job or of all."""
    stored = app.open().checkpoints(job_id)
    if app.out.as_json({"job": job_id, "checkpoints": [documents.checkpoint(c) for c in stored]}):
        return
    if not stored:
        app.out.line(f"job {job_id} has no checkpoint" if job_id else "no checkpoints yet")
        return
    rows = (
        (c.run, c.name, c.epoch, format.size(c.size), format.clock(c.modified), (c.sha256 or "")[:12], c.job)
        for c in stored
    )
    app.out.show(render.table(("RUN", "CHECKPOINT", "EPOCH", "SIZE", "SAVED", "SHA-256", "JOB"), rows))


@click.command(cls=LabCommand)
@pass_app
def recipes(app: App) -> None:
    """List the recipes and what -p can set in each."""
    from lab.cluster.recipes import recipes as known

    available = known()
    if app.out.as_json({"recipes": [documents.recipe(w) for w in available]}):
        return
    for item in available:
        also = f"; --fault-tolerance {' or '.join(item.ways)}" if item.ways else ""
        app.out.line(f"{item.name}: {item.summary}{also}")
        rows = (
            (f"  -p {p.name}=", "" if p.default is None else p.default, p.type, p.help)
            for p in item.parameters
        )
        app.out.show(render.table(("  PARAMETER", "DEFAULT", "TYPE", "WHAT IT IS"), rows))


for command in batches.COMMANDS:
    job.add_command(command)

COMMANDS = (jobs, job, checkpoints, recipes)
