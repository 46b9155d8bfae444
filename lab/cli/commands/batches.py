"""job receipt, job lose-node: proof that a batch of inference lost nothing with a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lab.api.base import plain
from lab.cli import values
from lab.cli.context import App, LabCommand, pass_app
from lab.errors import VerdictError

if TYPE_CHECKING:
    from lab.api.inference import BatchReceipt


@click.command(cls=LabCommand, name="receipt")
@click.argument("job_id", type=values.Text(), metavar="ID", help="A job of the recipe llm-batch.")
@pass_app
def job_receipt(app: App, job_id: str) -> None:
    """Prove that a batch of inference lost no prompt, and answered none twice.

    The job must have ended. Exits with 0 when the verdict is `recovered` (a node was lost) or `as-expected`
    (none was), else with 10.
    """
    from lab.evidence import inference

    _show_batch(app, inference.judge(inference.read(app.open().store, job_id)))


@click.command(cls=LabCommand, name="lose-node")
@click.argument("job_id", type=values.Text(), metavar="ID", help="A job of the recipe llm-batch that runs.")
@click.argument(
    "node",
    type=values.Text(),
    metavar="[NODE]",
    required=False,
    help="A worker; without it one with a replica.",
)
@click.option("--after-answers", type=click.IntRange(0), default=8, show_default=True, help="Kill it then.")
@pass_app
def job_lose_node(app: App, job_id: str, node: str | None, after_answers: int) -> None:
    """Kill a node under a batch of inference, start it again, and show the receipt.

    Exits as `labctl job receipt` does.
    """
    from lab.flows.inference import lose_node

    _show_batch(app, lose_node(app.open(), job_id, node or "", after_answers, app.out.note))


def _show_batch(app: App, receipt: BatchReceipt) -> None:
    from lab.cli import batch_panel

    if not app.out.as_json(plain(receipt)):
        batch_panel.show(app.out, receipt)
    if not receipt.verdict.good:
        wrong = next(c for c in receipt.checks if c.passed is not True)
        why = f"{wrong.name}: {wrong.detail}"
        app.fail(VerdictError(f"the batch is not proven: {receipt.verdict.value}", why))


COMMANDS = (job_receipt, job_lose_node)
