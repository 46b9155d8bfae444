"""Words and figures of a report, for somebody who reads them for the first time."""

from __future__ import annotations

from collections.abc import Mapping

from lab.flows import labels as recovery
from lab.flows.labels import Headline

HEADLINES: Mapping[str, Headline] = {
    **recovery.HEADLINES,
    "undisturbed": Headline(
        "plain", "▶", "Training without a fault", "No fault is on record for this job."
    ),
    "attempt lost": Headline(
        "open", "!", "An attempt was lost without a recorded fault",
        "Something other than labctl ended it, or the record of the fault is missing.",
    ),
    "not judged": Headline(
        "open", "?", "Training with a fault that was not judged", "There is no receipt of what followed."
    ),
}  # fmt: skip
"""Headline of a receipt, or of a job without one -> its words."""

MOMENTS = {
    "fault": "labctl broke it on purpose; all times count from here",
    "node_dead": "Ray's head gave the node up",
    "failure_detected": "the controller saw that a rank had failed and decided to try again",
    "attempt_started": "every rank has a process again",
    "restored": "the first rank had read the files of the checkpoint",
    "first_step": "every rank had taken a step of its optimizer",
    "first_report": "the first epoch after the fault was done",
    "reverted": "labctl had brought back what it broke",
    "node_rejoined": "the service that was hit had joined the cluster again",
}
"""Key of a moment -> what it means, in the usual order."""

PARTS = {
    "detect": "until Ray Train acts on the failure",
    "decide": "until it has ended the old attempt and asks for a new one",
    "place": "until Ray begins to start the processes of the ranks",
    "start": "until these processes belong to Ray Train",
    "import": "until the training function begins: Python imports torch and the like",
    "load": "until the files of the checkpoint have been read",
    "first_step": "until every rank has taken a step of its optimizer",
    "report": "until the first report: the rest of an epoch or of so many steps, and their checkpoint",
}
"""Parts of the time without training, in their order -> what each is."""


def seconds(value: float) -> str:
    """`4.1 s`, `75 s`, `12 min`: with as many digits as a person wants to read."""
    if abs(value) >= 600:
        return f"{value / 60:.0f} min"
    return f"{value:.0f} s" if abs(value) >= 100 else f"{value:.1f} s"


def after(value: float | None) -> str:
    """A time after the fault: `+4.1 s`; `–` for None."""
    return "–" if value is None else f"{'+' if value >= 0 else '−'}{seconds(abs(value))}"
