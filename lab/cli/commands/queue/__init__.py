"""queue: quotas and queues as Kueue has them, of a lab, or of files without one."""

from __future__ import annotations

import click

from lab.cli.commands.queue import files, live, objects
from lab.cli.context import App, LabGroup, pass_app


@click.group(cls=LabGroup, invoke_without_command=True)
@click.pass_context
@pass_app
def queue(app: App, ctx: click.Context) -> None:
    """Show the queues of a lab, and the jobs in them.

    Without a subcommand, shows the ClusterQueues and the unfinished jobs. `check` and `simulate` read
    YAML files of Kueue, and need no lab.
    """
    if ctx.invoked_subcommand is None:
        live.overview(app)


for command in (*live.COMMANDS, *objects.COMMANDS, files.check, files.simulate):
    queue.add_command(command)

COMMANDS = (queue,)
