"""jobs receipt, jobs lose-node: proof that a batch of inference lost nothing with a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from lab.api.base import plain
from lab.cli import values
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.output import PANEL_WIDTH, Output, encodable
from lab.cli.receipt_panel import COLOURS
from lab.errors import VerdictError
from lab.flows.labels import HEADLINES
from lab.host.quantities import plural

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.panel import Panel

    from lab.ext.course.batch_documents import BatchReceipt, Tail

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
    if not app.out.as_json(plain(receipt)):
        _draw(app.out, receipt)
    if not receipt.verdict.good:
        wrong = next(c for c in receipt.checks if c.passed is not True)
        why = f"{wrong.name}: {wrong.detail}"
        app.fail(VerdictError(f"the batch is not proven: {receipt.verdict.value}", why))


def _draw(out: Output, receipt: BatchReceipt) -> None:
    out.show(panel(receipt, unicode=encodable("╭─✓✗")), width=PANEL_WIDTH)


def panel(receipt: BatchReceipt, *, unicode: bool) -> Panel:
    """The receipt as a panel; without `unicode` in ASCII alone."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    words = HEADLINES[receipt.verdict.value]
    colour = COLOURS[words.tone]
    meaning = WORDS.get(receipt.verdict.value, "not every check passed")
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    facts.add_row("job", receipt.job)
    facts.add_row("batch", f"{receipt.batch}, in {plural(receipt.sessions, 'session')}")
    nodes = ", ".join(lost.node_id[:12] for lost in receipt.lost_nodes)
    facts.add_row("nodes lost", nodes or "none")
    facts.add_row("lost", plural(receipt.lost_attempts, "attempt"))
    checks = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    marks = {True: "✓", False: "✗", None: "?"} if unicode else {True: "ok", False: "NO", None: "?"}
    colours = {True: "green", False: "red", None: "yellow"}
    for check in receipt.checks:
        mark = Text(marks[check.passed], style=colours[check.passed])
        checks.add_row(mark, check.name, Text(check.detail, style="dim"))
    parts: list[RenderableType] = [
        Text.assemble((words.word, f"bold {colour}"), f"  {meaning}"),
        Text(),
        facts,
    ]
    parts += [Text(), Text("Checks", style="bold"), checks]
    parts += [Text(), Text("Time to first token, ms", style="bold"), _latencies(receipt.ttft_ms)]
    if receipt.figures:
        rate = receipt.figures["output_tokens_per_second"]
        parts += [Text(), Text(f"{rate:,.0f} output tokens/s in this session")]
    return Panel(
        Group(*parts), title="receipt of a batch", title_align="left", border_style=colour,
        box=box.ROUNDED if unicode else box.ASCII, padding=(0, 1), width=PANEL_WIDTH,
    )  # fmt: skip


def _latencies(rows: Mapping[str, Tail | None]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("", "prompts", "p50", "p99", "max"):
        table.add_column(name, justify="left" if not name else "right")
    for name, row in rows.items():
        if row is not None:
            table.add_row(name, f"{row.count}", *(f"{value:,.0f}" for value in (row.p50, row.p99, row.max)))
    return table


COMMANDS = (receipt, lose_node)
