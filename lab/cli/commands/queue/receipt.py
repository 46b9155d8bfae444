"""queue receipt: proof of what preemptions did to a job."""

from __future__ import annotations

import click

from lab.cli import receipt_panel
from lab.cli.commands.faults import control_option, judge
from lab.cli.commands.queue.live import JOB
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.live import Story


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
    shown = app.out.as_json({"receipts": [made.to_json() for made in judged]})
    for made in () if shown else judged:
        receipt_panel.show(app.out, made.document())
    for made in judged:
        judge(app, made)


COMMANDS = (receipt,)
