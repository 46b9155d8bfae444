"""receipt: the recovery of a job on a cluster elsewhere, judged from its ledger."""

from __future__ import annotations

import click

from lab.api.base import plain
from lab.cli import receipt_panel, values
from lab.cli.clusters import LedgerPlace, ledger_options
from lab.cli.commands.faults import judge, strict_option
from lab.cli.context import App, LabCommand, pass_app


@click.command(cls=LabCommand)
@click.argument("job", type=values.Text(), help="The submission id; of a RayJob its status.jobId.")
@strict_option
@ledger_options(required=True)
@pass_app
def receipt(app: App, /, job: str, strict: bool, **options: str | None) -> None:
    """Judge a job of any cluster from its ledger alone.

    Judges the newest fault on record, as `fault-inject --runtime kubernetes` leaves it, else the last failure
    that Ray Train noticed. A question without evidence is marked as skipped. Writes nothing; exits
    with 0 only when the verdict is `recovered`, `resumed` or `as-expected`, else with 10; see --strict.
    """
    from lab.flows.recovery.outside import judge_from_ledger

    place = LedgerPlace.of(**options)
    judged = judge_from_ledger(place.store(), place.storage, job)
    if not app.out.as_json(plain(judged)):
        receipt_panel.show(app.out, judged)
    judge(app, judged, strict=strict)


COMMANDS = (receipt,)
