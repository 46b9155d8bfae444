"""jobs: what the lab has run, one by one, and what was saved."""

from __future__ import annotations

import click

from lab.cli.commands.jobs import listing, one
from lab.cli.context import App, LabGroup, pass_app


@click.group(cls=LabGroup, invoke_without_command=True)
@click.pass_context
@pass_app
def jobs(app: App, ctx: click.Context) -> None:
    """List the jobs and checkpoints; show, follow or stop a job.

    Without a subcommand, prints one line per job: newest first, then those of an earlier cluster, then
    those waiting in queues.
    """
    if ctx.invoked_subcommand is None:
        listing.overview(app)


for command in (*one.COMMANDS, *listing.COMMANDS):
    jobs.add_command(command)

COMMANDS = (jobs,)
