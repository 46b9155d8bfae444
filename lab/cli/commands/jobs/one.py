"""jobs show, logs, stop: one job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from lab.api.queue import Description
from lab.cli import documents, format, queue_words, render, values
from lab.cli.commands.jobs.listing import waiting_of
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.queued_jobs import QUEUED, Follower, attempts, cancelled, newest, queued_job
from lab.cluster.explain import of_waiting
from lab.cluster.job_logs import lines_of
from lab.cluster.jobs import TAIL_LINES, Job
from lab.errors import LabError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from lab.api.shown import PendingJob, QueuedJob
    from lab.lab import Lab

job_argument = click.argument("job_id", type=values.Text(), metavar="ID", help="A job; see `labctl jobs`.")


@click.command(cls=LabCommand)
@job_argument
@pass_app
def show(app: App, job_id: str) -> None:
    """Show a job, where it runs, and the attempts that it lost without a recorded fault."""
    from lab.flows.recovery.lost import lost_without_fault, recorded_faults

    lab = app.open()
    queued, silent = queued_job(lab, job_id)
    selected = _job(lab, job_id, queued, silent)
    if queued is not None and selected.status == QUEUED:
        _show_queued(app, lab, queued, selected)
        return
    job_id, placement = selected.submission_id, None
    waiting, problem = waiting_of(lab, [selected])
    waits = waiting.get(job_id)
    why = of_waiting(waits.reason) if waits and waits.kind == "infeasible" else lab.why_failed(selected)
    if not selected.final:
        try:
            placement = lab.placement(job_id)
        except UnsupportedError:  # its ledger is out of reach
            pass
        except LabError as error:
            problem = error.message
    lost: tuple[str, ...] = ()
    try:
        lost = lost_without_fault(lab.history(job_id), recorded_faults(lab.store, job_id))
    except UnsupportedError:
        pass
    except LabError as error:
        problem = problem or error.message
    last: list[str] = []
    try:
        if not selected.earlier:
            last = [format.at_rest(line) for line in lines_of(lab.jobs.logs(job_id, TAIL_LINES))]
    except LabError as error:
        problem = problem or error.message
    if app.out.json_wanted:
        document = documents.described_job(selected, waits, placement, lost, problem, why, last)
        in_queue: QueuedJob | None = None if queued is None else {**document, "queue": queued}
        app.out.document(in_queue or document)
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
    if last:
        app.out.line("last lines")
    for line in last:
        app.out.log_line(f"  {line}")


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
        document: PendingJob = {**documents.described_job(job), "queue": queued, "why": why}
        app.out.document(document)
        return
    skipped = ("reason", "place", "problem")
    rows = [row for row in queue_words.job_rows(queued) if row[0] not in skipped]
    render.pairs(app.out, [*rows, *queue_words.why_rows(why)])


@click.command(cls=LabCommand)
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Print new lines until the job ends, or Ctrl-C.")
@pass_app
def logs(app: App, job_id: str, follow: bool) -> None:
    """Print what a job's driver wrote. With --json and -f, one JSON document per line."""
    lab = app.open()
    queued, silent = queued_job(lab, job_id)
    if queued is not None:
        _queued_logs(app, lab, queued, job_id, follow)
        return
    _refuse_earlier(lab, job_id, "what Ray kept of its output is gone", silent)
    client = lab.jobs
    if not follow:
        lines = lines_of(client.logs(job_id))
        if app.out.json_wanted:
            app.out.document({"submission_id": job_id, "lines": [format.at_rest(line) for line in lines]})
        for line in () if app.out.json_wanted else lines:
            app.out.log_line(line)
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
            log = lab.jobs.follow(attempt, on_outage=out.note) if follow else lines_of(lab.jobs.logs(attempt))
            for line in log:
                lines.append(format.at_rest(line))
                if follow or not out.json_wanted:
                    _log_line(app, job_id, line)
        except NotFoundError:
            out.warn(f"the log of attempt {attempt} is gone with the head that ran it")
    if not ids:
        out.note(f"job {queued.workload} has not run yet: labctl queue why {queued.name}")
    if out.json_wanted and not follow:
        out.document({"submission_id": job_id, "lines": lines})


def _log_line(app: App, job_id: str, line: str) -> None:
    if not app.out.as_json({"submission_id": job_id, "line": format.at_rest(line)}, compact=True):
        app.out.log_line(line)


@click.command(cls=LabCommand)
@job_argument
@pass_app
def stop(app: App, job_id: str) -> None:
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
            f"its ledger: labctl jobs show {job_id}; labctl jobs checkpoints {job_id}",
        )


COMMANDS = (show, logs, stop)
