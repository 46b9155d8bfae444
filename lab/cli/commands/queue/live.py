"""queue list, describe, why, hold, resume, events, receipt: jobs in the queues of a lab."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lab.api.base import plain
from lab.api.queue import Description, Listing, QueueEvent, Row
from lab.api.quotas import ClusterQueueView, CohortView, LocalQueueView
from lab.cli import format, queue_words, receipt_panel, render, values
from lab.cli.commands.faults import control_option, judge
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.live import Story
from lab.cluster.queues import FIRST, Queues
from lab.errors import LabError, NotFoundError

STATUSES = ("unfinished", "all", "pending", "admitted", "finished")
MOST = 50
"""Jobs that a person is shown, unless --limit says otherwise."""

MOST_LIMIT = 1_000_000
POLL_SECONDS = 1.0
PATIENCE_SECONDS = 30.0
"""Time that the controller may be silent while its events are followed."""

JOB = click.argument(
    "name", type=values.Text(), metavar="JOB",
    help="A job: NAMESPACE/NAME, its name, or the id of one of its attempts.",
)  # fmt: skip


def overview(app: App) -> None:
    """Print the ClusterQueues, and the jobs that have not finished."""
    queues = app.open().queues
    listing = queues.queues()
    jobs = queues.list(limit=0 if app.out.json_wanted else MOST)
    if app.out.as_json({**vars(listing), **vars(jobs)}):
        return
    if not listing.cluster_queues:
        app.out.line("no queues yet")
        app.out.note(f"make some: {FIRST}")
        return
    rows = (
        (
            cluster_queue.name,
            cluster_queue.cohort,
            cluster_queue.pending,
            cluster_queue.admitted,
            cluster_queue.active,
            ", ".join(queue_words.used(flavor) for flavor in cluster_queue.flavors),
        )
        for cluster_queue in listing.cluster_queues
    )
    columns = ("NAME", "COHORT", "PENDING WORKLOADS", "ADMITTED WORKLOADS", "ACTIVE", "USED")
    app.out.show(render.table(columns, rows))
    for cluster_queue in listing.cluster_queues:
        if not cluster_queue.active:
            app.out.warn(f"ClusterQueue {cluster_queue.name}: {cluster_queue.message}")
    for excess in listing.overcommitted:
        app.out.warn(excess.message, excess.hint)
    app.out.line()
    _show(app, jobs)


@click.command("list", cls=LabCommand)
@click.option(
    "--status", type=click.Choice(STATUSES), default="unfinished", metavar="|".join(STATUSES),
    help="Jobs to list. [default: unfinished]",
)  # fmt: skip
@click.option("--queue", "queue_name", type=values.Text(), metavar="QUEUE",
              help="Only those of this LocalQueue: NAME or NAMESPACE/NAME.")  # fmt: skip
@click.option(
    "--limit", type=values.WholeNumber(1, MOST_LIMIT), metavar="N",
    help=f"Show at most this many. [default: {MOST}, with --json all]",
)  # fmt: skip
@pass_app
def list_jobs(app: App, status: str, queue_name: str | None, limit: int | None) -> None:
    """List jobs in the order of their queues: those that run, those that wait, and why."""
    most = limit or (0 if app.out.json_wanted else MOST)
    listed = app.open().queues.list(status=status, queue=queue_name or "", limit=most)
    if not app.out.as_json(listed):
        _show(app, listed)


def _show(app: App, listed: Listing) -> None:
    jobs, now = listed.workloads, listed.now
    if jobs:
        app.out.show(render.table(COLUMNS, (_row(job, now) for job in jobs)), width=render.SENTENCES)
    else:
        app.out.line("no such job is in the queues")
    if len(jobs) < listed.total:
        app.out.line(f"and {listed.total - len(jobs)} more; --limit shows them")
    if silent := queue_words.away(listed):
        app.out.warn(silent)


COLUMNS = (
    *("NAME", "JOB TYPE", "JOB NAME", "LOCALQUEUE", "CLUSTERQUEUE", "STATUS", "POSITION IN QUEUE"),
    *("EXEC TIME", "AGE", "REASON"),
)


def _row(job: Row, now: float) -> tuple[object, ...]:
    position = job.position_in_cluster_queue
    waits = job.status in ("Pending", "Evicted", "Deactivated", "Finished")
    return (
        job.workload,
        job.recipe or "command",
        job.job_name,
        job.local_queue,
        job.cluster_queue,
        job.status,
        None if position is None else queue_words.ordinal(position),
        format.seconds(job.executed) if job.executed else "",
        format.seconds(max(0.0, now - job.created)),
        ": ".join(filter(None, (job.reason, job.waits)))
        if waits
        else "takes more than asked"
        if job.takes_more
        else "",
    )


@click.command(cls=LabCommand)
@click.argument(
    "name", type=values.Text(), metavar="NAME",
    help="A job as for `queue why`, or a ClusterQueue, a LocalQueue or a cohort.",
)  # fmt: skip
@pass_app
def describe(app: App, name: str) -> None:
    """Describe a job with its attempts and events, or a queue with its quota and usage."""
    queues = app.open().queues
    try:
        described = queues.describe(name)
    except NotFoundError as error:
        kind, queue = _queue(queues, name)
        if queue is None:
            raise NotFoundError(f"there is no job, queue or cohort {name!r}", error.hint) from None
        if not app.out.as_json({"kind": kind, **vars(queue)}):
            render.pairs(app.out, queue_words.queue_rows(kind, queue))
        return
    if not app.out.as_json({"kind": "Job", **vars(described)}):
        render.pairs(app.out, queue_words.job_rows(described))


def _queue(queues: Queues, name: str) -> tuple[str, ClusterQueueView | CohortView | LocalQueueView | None]:
    """Kind and document of a queue or cohort; nothing where there is none of this name."""
    listing = queues.queues()
    for queue in listing.cluster_queues:
        if queue.name == name:
            return "ClusterQueue", queue
    for cohort in listing.cohorts:
        if cohort.name == name:
            return "Cohort", cohort
    for local in listing.local_queues:
        if name in (local.name, f"{local.namespace}/{local.name}"):
            return "LocalQueue", local
    return "", None


@click.command(cls=LabCommand)
@JOB
@pass_app
def why(app: App, name: str) -> None:
    """Say why a job waits, which jobs hold the quota that it needs, and when it could start."""
    answer = app.open().queues.why(name)
    if app.out.as_json(answer):
        return
    if answer.status == "Pending":
        render.pairs(app.out, [("job", queue_words.called(answer)), *queue_words.why_rows(answer)])
        return
    reason = queue_words.explained(answer) if answer.reason or answer.message else ""
    render.pairs(
        app.out, (("job", queue_words.called(answer)), ("status", answer.status), ("reason", reason))
    )


@click.command(cls=LabCommand)
@JOB
@pass_app
def hold(app: App, name: str) -> None:
    """Put a job on hold: it leaves its queue, and is stopped if it runs, until `queue resume`."""
    queues = app.open().queues
    _say(app, queues.describe(queues.hold(name).workload))


@click.command(cls=LabCommand)
@JOB
@pass_app
def resume(app: App, name: str) -> None:
    """Let a job queue again that is on hold, or that ran into a limit of its queue or its time."""
    queues = app.open().queues
    _say(app, queues.describe(queues.resume(name).workload))


def _say(app: App, job: Description) -> None:
    if not app.out.as_json(job):
        app.out.line(f"job {job.workload}: {said(job)}")


def said(job: Description) -> str:
    """State of a job that was put on hold or resumed, in words."""
    if job.status == "Finished":
        return f"Finished ({job.reason})"
    return "is being stopped" if job.stopping else job.status


@click.command(cls=LabCommand)
@click.option("-f", "--follow", is_flag=True, help="Go on until Ctrl-C.")
@click.option("--since", type=values.WholeNumber(0, 2**53), default=0, metavar="NUMBER",
              help="Only events after the one with this number. [default: 0, all]")  # fmt: skip
@pass_app
def events(app: App, follow: bool, since: int) -> None:
    """Print what was decided: who was admitted, preempted or finished, and why others wait.

    With --json and -f, one JSON document per line.
    """
    queues = app.open().queues
    page: Sequence[QueueEvent] = queues.events(since)
    if app.out.json_wanted and not follow:
        app.out.document({"events": list(page)})
        return
    if not page and not follow:
        app.out.line("nothing has been decided yet")
    while True:
        for event in page:
            since = max(since, event.number)
            if app.out.json_wanted:
                app.out.document(event, compact=True)
            else:
                app.out.line(queue_words.event(event))
        if not follow:
            return
        app.clock.sleep(POLL_SECONDS)
        page = _patiently(app, queues, since)


def _patiently(app: App, queues: Queues, since: int) -> Sequence[QueueEvent]:
    """Events after this one; a controller that starts again may be silent for a while."""
    deadline = app.clock() + PATIENCE_SECONDS
    while True:
        try:
            return queues.events(since)
        except LabError:
            if app.clock() >= deadline:
                raise
        app.clock.sleep(POLL_SECONDS)


@click.command(cls=LabCommand)
@JOB
@control_option
@pass_app
def receipt(app: App, name: str, control: bool) -> None:
    """Prove that a job which was preempted resumed from its checkpoint: a receipt for each preemption.

    The job must have ended. Exits with 0 only when every verdict is `recovered`, else with 10.
    """
    from lab.flows.recovery.preempted import receipts

    lab = app.open()
    with Story(app.out) as story:
        judged = receipts(lab, name, story.moment, control=control)
    shown = app.out.as_json({"receipts": [plain(made) for made in judged]})
    for made in () if shown else judged:
        receipt_panel.show(app.out, made)
    for made in judged:
        judge(app, made)


COMMANDS = (list_jobs, describe, why, hold, resume, events, receipt)
