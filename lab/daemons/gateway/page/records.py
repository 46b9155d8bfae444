"""The tables of what is kept of the class: recoveries with their receipts, and lessons. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from lab.api.receipt import ReceiptDocument, Verdict
from lab.daemons.gateway.page.model import Cell, Look, Table, seconds, span
from lab.errors import LabError
from lab.flows.labels import moment_label
from lab.people.policy import Action, Role
from lab.people.progress import CLAIMED, FAILED, PASSED, Progress

STANDINGS = {PASSED: ("passed", "good"), CLAIMED: ("claimed", "open"), FAILED: ("not yet", "")}


def recoveries(look: Look) -> Table:
    away = look.receipts.message if isinstance(look.receipts, LabError) else ""
    receipts = () if isinstance(look.receipts, LabError) else look.receipts
    return Table(
        "Recoveries",
        "Faults of which a receipt is kept, and the seconds until training went on.",
        ("job", "fault", "verdict", "training went on after", "receipt"),
        tuple(
            (
                Cell(receipt.job.submission_id, note=f"{span(look.now - receipt.fault.at)} ago"),
                Cell(f"{receipt.fault.kind} {receipt.fault.target}"),
                Cell(receipt.verdict.value, verdict_tone(receipt.verdict), receipt.reason),
                Cell(seconds(receipt.timeline.first_report)),
                Cell("read it", link=f"receipt/{name}"),
            )
            for name, receipt in receipts
        ),
        "No receipt is kept.",
        away,
    )


def receipt_tables(receipt: ReceiptDocument) -> tuple[Table, ...]:
    """A receipt, to read."""
    moments = sorted((at, name) for name, at in vars(receipt.timeline).items() if at is not None)
    return (
        Table(
            "Checks", "What was asked, and the answer.", ("check", "answer", "detail"),
            tuple((Cell(c.name), _answer(c.passed, c.skipped), Cell(c.detail)) for c in receipt.checks),
        ),
        Table(
            "Times", "Seconds after the fault.", ("moment", "after"),
            tuple((Cell(moment_label(name)), Cell(seconds(at))) for at, name in moments),
            "Nothing is recorded.",
        ),
    )  # fmt: skip


def _answer(passed: bool, skipped: bool) -> Cell:
    return Cell("not asked") if skipped else Cell("passed", "good") if passed else Cell("failed", "bad")


def verdict_tone(verdict: Verdict) -> str:
    """The tone of a verdict's words."""
    return "good" if verdict.good else "open" if verdict is Verdict.NOT_VERIFIED else "bad"


def lessons(look: Look) -> Table:
    progress, away = (
        (Progress(), look.progress.message) if isinstance(look.progress, LabError) else (look.progress, "")
    )
    shown = [
        name
        for name, person in look.people.items()
        if look.may(Action.READ, name) and (person.role is Role.STUDENT or name in progress.people)
    ]
    numbers = sorted(progress.lessons)
    collected = f", as of {span(look.now - progress.collected_at)} ago" if progress.collected_at else ""
    return Table(
        "Lessons",
        f"From reports that were handed in and checked against the lab{collected}. Claimed: its report says "
        "so, and the lab has no trace of it.",
        ("name", "passed", *(str(number) for number in numbers)),
        tuple(_standings(name, progress, numbers) for name in shown) if numbers else (),
        "No report was collected yet: the teacher types labctl class collect FOLDER.",
        away,
        wide=True,
    )


def _standings(name: str, progress: Progress, numbers: Iterable[int]) -> tuple[Cell, ...]:
    own = {one.lesson: one for one in progress.people.get(name, ())}
    cells = [Cell(*STANDINGS[own[number].state]) if number in own else Cell("–") for number in numbers]
    count = sum(one.state == PASSED for one in own.values())
    return Cell(name), Cell(f"{count} of {len(progress.lessons)}"), *cells
