"""jobs receipt, jobs lose-node: proof that a batch of inference lost nothing with a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lab.cli import render, values
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.output import Output
from lab.errors import VerdictError
from lab.flows.labels import HEADLINES
from lab.host.quantities import plural

if TYPE_CHECKING:
    from lab.ext.course.batch_documents import BatchReceipt

MARKS = {True: "ok", False: "NO", None: "?"}

WORDS = {
    "recovered": "a node was lost, and no prompt with it",
    "as-expected": "no node was lost, and every prompt was answered",
}
"""Verdict -> its meaning for a batch, where it differs from that for a training."""


@click.command(cls=LabCommand)
@click.argument("job_id", type=values.Text(), metavar="ID", help="A job of the recipe llm-batch.")
@pass_app
def receipt(app: App, job_id: str) -> None:
    """Prove that a batch of inference lost no prompt, and answered none twice.

    The job must have ended. Exits with 0 when the verdict is `recovered` (a node was lost) or `as-expected`
    (none was), else with 10.
    """
    from lab.ext.course.inference import receipt as inference

    _show(app, inference.judge(inference.read(app.open().store, job_id)))


@click.command(cls=LabCommand, name="lose-node")
@click.argument("job_id", type=values.Text(), metavar="ID", help="A job of the recipe llm-batch that runs.")
@click.argument(
    "node",
    type=values.Text(),
    metavar="[NODE]",
    required=False,
    help="A worker. [default: one that runs a replica]",
)
@click.option(
    "--after-answers",
    type=click.IntRange(0),
    default=8,
    show_default=True,
    help="Answers after which it is killed.",
)
@pass_app
def lose_node(app: App, job_id: str, node: str | None, after_answers: int) -> None:
    """Kill a node under a batch of inference, start it again, and show the receipt.

    Exits as `labctl jobs receipt` does.
    """
    from lab.ext.course import inference

    _show(app, inference.lose_node(app.open(), job_id, node or "", after_answers, app.out.note))


def _show(app: App, receipt: BatchReceipt) -> None:
    if not app.out.as_json(receipt):
        _draw(app.out, receipt)
    if not receipt.verdict.good:
        wrong = next(c for c in receipt.checks if c.passed is not True)
        why = f"{wrong.name}: {wrong.detail}"
        app.fail(VerdictError(f"the batch is not proven: {receipt.verdict.value}", why))


def _draw(out: Output, receipt: BatchReceipt) -> None:
    verdict = receipt.verdict.value
    out.line(f"{HEADLINES[verdict].word}  {WORDS.get(verdict, 'not every check passed')}")
    rate = (receipt.figures or {}).get("output_tokens_per_second")
    facts = (
        ("job", receipt.job),
        ("batch", f"{receipt.batch}, in {plural(receipt.sessions, 'session')}"),
        ("nodes lost", ", ".join(lost.node_id[:12] for lost in receipt.lost_nodes) or "none"),
        ("lost", plural(receipt.lost_attempts, "attempt")),
        ("speed", f"{rate:,.0f} output tokens/s in this session" if isinstance(rate, (int, float)) else None),
    )
    render.pairs(out, facts)
    checks = ((MARKS[check.passed], check.name, check.detail) for check in receipt.checks)
    out.show(render.table(("", "CHECK", "FOUND"), checks), width=render.SENTENCES)
    latencies = (
        (name, tail.count, *(f"{value:,.0f}" for value in (tail.p50, tail.p99, tail.max)))
        for name, tail in receipt.ttft_ms.items()
        if tail is not None
    )
    out.show(render.table(("Time to first token, ms", "PROMPTS", "P50", "P99", "MAX"), latencies))


COMMANDS = (receipt, lose_node)
