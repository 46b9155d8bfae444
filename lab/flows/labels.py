"""Words for the moments and the outcome of a recovery, as the terminal and the report say them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.api.receipt import ReceiptDocument

MOMENTS: Mapping[str, str] = {
    "submitted": "submitted",
    "placed": "placed",
    "waiting": "waiting",
    "fault": "fault",
    "node_dead": "node declared dead",
    "failure_detected": "Ray Train acts",
    "attempt_started": "new attempt",
    "restored": "checkpoint loaded",
    "first_step": "first new step",
    "survivors": "survivors go on",
    "rejoined": "rank is back",
    "first_report": "first new report",
    "reverted": "fault reverted",
    "admitted": "admitted again",
    "node_rejoined": "node is back",
    "progress": "training",
    "job_finished": "job finished",
    "control": "control run",
    "starting": "node is starting",
}
"""Key of a moment -> its name, in the usual order."""


def moment_label(key: str) -> str:
    """The name of a moment, whose key may go on after a space; its key in words where it is not listed."""
    kind = key.split(" ", maxsplit=1)[0]
    return MOMENTS.get(kind, kind.replace("_", " "))


@dataclass(frozen=True)
class Headline:
    """The words that head a receipt."""

    tone: str
    """`good`, `bad`, `open` (not all is known or right), or `plain`."""
    mark: str
    title: str
    meaning: str
    word: str = ""
    """The verdict in capitals, for a terminal."""
    short: str = ""
    """Its meaning in a few words."""


HEADLINES: Mapping[str, Headline] = {
    "recovered": Headline(
        "good", "✔", "Training recovered", "It went on from its checkpoint. Every check passed.",
        "RECOVERED", "training went on from its checkpoint",
    ),
    "recovered from memory": Headline(
        "good", "✔", "Training recovered",
        "It went on from the state in a neighbour's memory. Every check passed.",
        "RECOVERED", "training went on from a neighbour's memory",
    ),
    "recovered, not equal": Headline(
        "good", "✔", "Training recovered, but not as if nothing had happened",
        "It went on from its checkpoint, but without the optimizer's own state, or with other metrics than "
        "the undisturbed run.",
        "RECOVERED", "but not equal to the undisturbed run",
    ),
    "resumed": Headline(
        "good", "✔", "Training resumed, its weights were not compared",
        "It went on behind its checkpoint. There was no state that could be compared.",
        "RESUMED", "weights not compared",
    ),
    "as-expected": Headline(
        "good", "✔", "It went as it should",
        "Nothing had to resume: the fault had exactly the outcome that it should have.",
        "AS EXPECTED", "what should happen after such a fault did happen",
    ),
    "restarted-from-scratch": Headline(
        "bad", "✖", "Training started again from the beginning",
        "The work before the fault was lost, although there was a checkpoint.",
        "RESTARTED FROM SCRATCH", "the work before the fault was lost",
    ),
    "failed": Headline(
        "bad", "✖", "Training did not recover", "At least one check says that something went wrong.",
        "FAILED", "training did not recover",
    ),
    "not-verified": Headline(
        "open", "?", "Recovery was not proven",
        "There is not enough evidence to say that training recovered, or that it did not.",
        "NOT VERIFIED", "the evidence does not allow a verdict",
    ),
    "went on": Headline(
        "bad", "✖", "Training went on, but not everything is right",
        "At least one check says that something went wrong.",
        "FAILED", "training went on, but not everything is right",
    ),
    "recovered, lab not whole": Headline(
        "open", "!", "Training recovered, the lab is not whole",
        "It went on. Something of the lab did not come back.",
        "RECOVERED, LAB NOT WHOLE", "training did recover; see below",
    ),
    "as-expected, lab not whole": Headline(
        "open", "!", "Training went as it should, the lab is not whole",
        "Nothing had to resume. Something of the lab did not come back.",
        "AS EXPECTED, LAB NOT WHOLE", "training came through",
    ),
}  # fmt: skip
"""Key that `lab.evidence.receipt.headline` gives -> its words."""


def words(receipt: ReceiptDocument) -> Headline:
    """Return the words that head a receipt, with what they are about."""
    from lab.api.receipt import Verdict
    from lab.evidence.receipt.headline import NOT_EQUAL, differs_from, headline, other_moments
    from lab.evidence.receipt.questions import STATE

    key = headline(receipt)
    head, moments = HEADLINES[key], other_moments(receipt)
    if receipt.verdict is Verdict.RESUMED:
        return replace(head, short=next((c.detail for c in receipt.checks if c.id == STATE), ""))
    if key == NOT_EQUAL and not (difference := differs_from(receipt)):
        return replace(head, short=f"but {moments}")
    if key == NOT_EQUAL:
        return replace(head, short="; ".join(filter(None, (f"{head.short}: {difference}", moments))))
    return head
