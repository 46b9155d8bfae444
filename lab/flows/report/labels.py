"""The words of a report: what verdicts, moments and parts of a recovery mean, for who reads them first."""

from __future__ import annotations

VERDICTS = {
    "recovered": ("Training recovered", "It went on from its checkpoint. Every check passed."),
    "as-expected": (
        "It went as it should",
        "Nothing had to resume: the fault had exactly the outcome that it should have.",
    ),
    "restarted-from-scratch": (
        "Training started again from the beginning",
        "The work before the fault was lost, although there was a checkpoint.",
    ),
    "failed": ("Training did not recover", "At least one check says that something went wrong."),
    "not-verified": (
        "Recovery was not proven",
        "There is not enough evidence to say that training recovered, or that it did not.",
    ),
}
"""Verdict -> headline, and what it means."""

HEADLINES = {
    **VERDICTS,
    "went on": ("Training went on, but not everything is right", VERDICTS["failed"][1]),
    "recovered, lab not whole": (
        "Training recovered, the lab is not whole",
        "It went on from its checkpoint. Something of the lab did not come back.",
    ),
    "as-expected, lab not whole": (
        "Training went as it should, the lab is not whole",
        "Nothing had to resume. Something of the lab did not come back.",
    ),
    "undisturbed": ("Training without a fault", "No fault is on record for this job."),
    "attempt lost": (
        "An attempt was lost without a recorded fault",
        "Something other than labctl ended it, or the record of the fault is missing.",
    ),
    "not judged": ("Training with a fault that was not judged", "There is no receipt of what followed."),
}
"""What `lab.evidence.receipt.headline` gives, or what is known of a job without a receipt -> headline,
meaning."""

MARKS = {
    "recovered": "✔",
    "as-expected": "✔",
    "restarted-from-scratch": "✖",
    "failed": "✖",
    "not-verified": "?",
    "recovered, lab not whole": "!",
    "as-expected, lab not whole": "!",
    "went on": "✖",
    "attempt lost": "!",
    "not judged": "?",
}

MOMENTS = {
    "fault": ("the fault", "labctl broke it on purpose; all times count from here"),
    "node_dead": ("node declared dead", "Ray's head gave the node up"),
    "failure_detected": (
        "Ray Train acts",
        "the controller saw that a rank had failed and decided to try again",
    ),
    "attempt_started": ("new attempt", "every rank has a process again"),
    "restored": ("checkpoint loaded", "the first rank had read the files of the checkpoint"),
    "first_report": ("first new report", "the first epoch after the fault was done"),
    "reverted": ("fault undone", "labctl had brought back what it broke"),
    "node_rejoined": ("node is back", "the service that was hit had joined the cluster again"),
}
"""Key -> label, and what it means, in the usual order."""

PARTS = {
    "detect": ("detect", "until Ray Train acts on the failure"),
    "decide": ("decide", "until it has ended the old attempt and asks for a new one"),
    "place": ("place", "until Ray begins to start the processes of the ranks"),
    "start": ("start", "until these processes belong to Ray Train"),
    "import": ("import", "until the training function begins: Python imports torch and the like"),
    "load": ("load", "until the files of the checkpoint have been read"),
    "first_step": ("first step", "until the first report: an epoch or a step, and its checkpoint"),
}
"""Parts of the time without training, in their order."""

CHECKS = {True: ("✔", "passed"), False: ("✖", "not passed")}


def moment(key: str) -> tuple[str, str]:
    """Label and meaning of a moment; of one that is not known here, its key."""
    return MOMENTS.get(key, (key.replace("_", " "), ""))


def part(key: str) -> tuple[str, str]:
    """Label and meaning of a part of the recovery."""
    return PARTS.get(key, (key.replace("_", " "), ""))


def seconds(value: float) -> str:
    """`4.1 s`, `75 s`, `12 min`: with as many digits as a person wants to read."""
    if abs(value) >= 600:
        return f"{value / 60:.0f} min"
    return f"{value:.0f} s" if abs(value) >= 100 else f"{value:.1f} s"


def after(value: float) -> str:
    """A time after the fault: `+4.1 s`."""
    return f"{'+' if value >= 0 else '−'}{seconds(abs(value))}"


def plural(count: float, word: str) -> str:
    """`1 epoch`, `2 epochs`."""
    return f"{count:g} {word}" if count == 1 else f"{count:g} {word}s"
