"""The recovery receipt for people: a panel of at most 80 columns, drawn from its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.cli import format
from lab.cli.live import after
from lab.cli.output import PANEL_WIDTH, Output, encodable
from lab.flows.labels import moment_label, words
from lab.host.quantities import plural

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.panel import Panel
    from rich.table import Table

    from lab.api.receipt import AttemptDocument, CheckDocument, OtherRun, ReceiptDocument

COLOURS = {"good": "green", "bad": "red", "open": "yellow"}
"""Tone of a headline -> colour."""

WEIGHTS = {"equal": "identical, bit for bit"}
"""Result of comparing weights -> its words, where they differ."""

BAR = 16
"""Columns of the longest bar of the timeline."""

SHOWN_HASH = 16
"""Characters of a SHA-256 that are shown; the JSON has them all."""


def show(out: Output, receipt: ReceiptDocument) -> None:
    """Draw the receipt on stdout."""
    out.show(panel(receipt, unicode=encodable("╭─✓✗━→")), width=PANEL_WIDTH)


def panel(receipt: ReceiptDocument, *, unicode: bool) -> Panel:
    """The receipt as a panel; without `unicode` in ASCII alone."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    summary = words(receipt)
    colour = COLOURS[summary.tone]
    head = Text.assemble((summary.word, f"bold {colour}"), f"  {summary.short}")
    parts: list[RenderableType] = [head]
    if receipt.reason:
        parts.append(Text(receipt.reason))
    parts += [Text(), _facts(receipt)]
    for heading, body in (
        ("Seconds after the fault", _timeline(vars(receipt.timeline), unicode)),
        ("Where they went", _breakdown(receipt.breakdown or {})),
        ("Checks", _checks(receipt.checks, unicode)),
        ("Attempts", _attempts(receipt.attempts, unicode)),
        ("Other runs of the job", _others(receipt.others)),
        ("Problems", _problems(receipt.problems)),
    ):
        if body is not None:
            parts += [Text(), Text(heading, style="bold"), body]
    return Panel(
        Group(*parts), title="recovery receipt", title_align="left", border_style=colour,
        box=box.ROUNDED if unicode else box.ASCII, padding=(0, 1), width=PANEL_WIDTH,
    )  # fmt: skip


def _grid(*widths: int | None) -> Table:
    from rich.table import Table

    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for width in widths:
        grid.add_column(width=width, overflow="fold")
    return grid


def _facts(receipt: ReceiptDocument) -> Table:
    from lab.evidence.receipt import done_twice

    fault, job, checkpoint = receipt.fault, receipt.job, receipt.checkpoint
    grid = _grid(10, None)
    when = format.clock(fault.at)
    until = "" if fault.reverted_at is None else f", reverted {after(fault.reverted_at - fault.at)}"
    grid.add_row("fault", f"{fault.kind} {fault.target} at {when}{until}")
    grid.add_row("expected", receipt.expected.text)
    grid.add_row("job", f"{job.submission_id} {job.status}".strip())
    if receipt.others:
        grid.add_row("run", receipt.run or "unknown")
    if job.resubmitted_as:
        why = (
            "preempted"
            if receipt.preemption
            else "reset for its node's health"
            if receipt.health
            else "died with its head"
        )
        grid.add_row("", f"{why}; submitted again as {job.resubmitted_as}")
    sizes = [entry.ranks for entry in receipt.world_size]
    if len(set(sizes)) > 1:
        shown = [n for i, n in enumerate(sizes) if not i or n != sizes[i - 1]]
        grid.add_row("ranks", ", then ".join(map(str, shown)))
    key = receipt.epoch_key or "epoch"
    if checkpoint:
        epoch = "" if checkpoint.epoch is None else f"{key} {checkpoint.epoch}  "
        grid.add_row("checkpoint", f"{epoch}{checkpoint.uri}")
        saved, loaded = checkpoint.saved_sha256, checkpoint.loaded_sha256
        if saved is not None and saved == loaded:
            hashes = f"saved = loaded {_short(saved)}"
        else:
            hashes = f"saved {_short(saved)}  loaded {_short(loaded)}"
        grid.add_row("  SHA-256", hashes)
    if receipt.patches is not None:
        grid.add_row("Ray with", ", ".join(receipt.patches) or "nothing of the lab's but the ledger")
    lost, unit = done_twice(receipt)
    if lost is not None:
        grid.add_row("done twice", "nothing" if lost == 0 else plural(lost, unit))
    return grid


def _breakdown(stages: Mapping[str, float | None]) -> RenderableType | None:
    """The stages in one line, such as `detect 0.7  decide 0.1  place 0.0`."""
    from rich.text import Text

    known = [(name, seconds) for name, seconds in stages.items() if seconds is not None]
    if not known:
        return None
    return Text("  ".join(f"{name.replace('_', ' ')} {seconds:.1f}" for name, seconds in known))


def _short(digest: str | None) -> str:
    return "unknown" if digest is None else digest[:SHOWN_HASH]


def _timeline(timeline: Mapping[str, float | None], unicode: bool) -> Table | None:
    from rich.text import Text

    known = [value for value in timeline.values() if value is not None]
    if not known:
        return None
    longest = max(*known, 0.001)
    grid = _grid(9, 18, None)
    grid.columns[0].justify = "right"
    for key, value in timeline.items():
        bar = ""
        if value is not None:
            bar = ("━" if unicode else "=") * max(1, round(BAR * max(value, 0.0) / longest))
        shown = after(value) or ("–" if unicode else "-")
        grid.add_row(
            Text(shown, style="bold" if value is not None else "dim"),
            moment_label(key),
            Text(bar, style="cyan"),
        )
    return grid


def _checks(checks: Sequence[CheckDocument], unicode: bool) -> Table | None:
    from rich.text import Text

    if not checks:
        return None
    grid = _grid(4, 22, None)
    good, bad, open_, skipped = ("✓", "✗", "?", "–") if unicode else ("ok", "FAIL", "?", "skip")
    for check in checks:
        mark = Text(good, style="green") if check.passed else Text(bad, style="bold red")
        if not check.known and not check.passed:
            mark = Text(open_, style="yellow")
        if check.skipped:
            mark = Text(skipped, style="dim")
        mark.justify = "right"
        grid.add_row(mark, check.name, Text(check.detail))
    return grid


def _attempts(attempts: Sequence[AttemptDocument], unicode: bool) -> Table | None:
    if not attempts:
        return None
    grid = _grid(4, None, None, None)
    arrow = "→" if unicode else "to"
    for attempt in attempts:
        first, last = attempt.first_epoch, attempt.last_epoch
        span = "no report" if first is None else f"{first} {arrow} {last}" if first != last else f"{first}"
        began, ended = attempt.started_at, attempt.ended_at
        lasted = format.seconds(ended - began) if began is not None and ended is not None else ""
        grid.add_row(f"{attempt.attempt:>4}", ", ".join(attempt.nodes), span, lasted)
    return grid


def _others(others: Sequence[OtherRun]) -> Table | None:
    if not others:
        return None
    grid = _grid(None, None)
    for other in others:
        verdict = f"{other.verdict.value}: " if other.verdict is not None else ""
        grid.add_row(other.run, f"{verdict}{other.reason}")
    return grid


def _problems(problems: tuple[str, ...]) -> RenderableType | None:
    from rich.text import Text

    return Text("\n".join(problems)) if problems else None
