"""The questions of the receipt: one file per subject, and which of them a fault's outcome asks.

Each answers from the evidence alone, in numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lab.evidence.receipt.case import SKIPPED, Answer, Case
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.model import CheckResult
from lab.evidence.receipt.questions import ending, health, hit, queues, resume, survivors, whole

RESUMED = "resumed, not restarted"
WENT_ON = "went on"
SURVIVED = "survivors went on"
WHOLE = "lab whole again"
"""Always the last question, and the only one that is not about the training."""


def run_checks(case: Case) -> tuple[CheckResult, ...]:
    """Answer all questions of the fault's outcome, in order."""
    answers = ((name, question(case)) for name, question in QUESTIONS[case.fault.expected].items())
    return tuple(
        CheckResult(name, yes is True, detail, known=isinstance(yes, bool), skipped=yes is SKIPPED)
        for name, (yes, detail) in answers
    )


Questions = Mapping[str, Callable[[Case], Answer]]
"""Name -> question."""

STORE_QUESTIONS: Questions = {
    "job finished": ending.finished_or_clear,
    "a real fault": hit.store_fault,
    "nothing saved is lost": whole.nothing_lost,
    WENT_ON: resume.went_on,
    WHOLE: whole.services_whole,
}

QUESTIONS: Mapping[Expected, Questions] = {
    Expected.NODE_LOST: {
        "job finished": ending.job_finished,
        "a real fault": hit.node_fault,
        "moved": resume.moved,
        "right checkpoint": resume.right_checkpoint,
        RESUMED: resume.resumed,
        "little lost": resume.little_lost,
        WHOLE: whole.lab_whole,
    },
    Expected.RANK_LOST: {
        "job finished": ending.job_finished,
        "a real fault": hit.rank_fault,
        "new processes": resume.new_processes,
        "right checkpoint": resume.right_checkpoint,
        RESUMED: resume.resumed,
        "little lost": resume.little_lost,
        WHOLE: whole.services_whole,
    },
    Expected.CHECKPOINT_DAMAGED: {
        "job finished": ending.job_finished,
        "a real fault": hit.checkpoint_fault,
        "new processes": resume.new_processes,
        "newest intact checkpoint": resume.intact_checkpoint,
        RESUMED: resume.resumed,
        "little lost": resume.little_lost,
        WHOLE: whole.services_whole,
    },
    Expected.STORE_AWAY: STORE_QUESTIONS,
    Expected.SLOWED: STORE_QUESTIONS,
    Expected.PREEMPTED: {
        "job finished": ending.job_finished,
        "a real fault": queues.preempted,
        "gave way": queues.gave_way,
        "right checkpoint": resume.right_checkpoint,
        RESUMED: resume.resumed,
        "little lost": resume.little_lost,
        WHOLE: whole.services_whole,
    },
    Expected.SURVIVED: {
        "job finished": ending.job_finished,
        "a real fault": survivors.rank_lost,
        SURVIVED: survivors.went_on,
        "rejoined": survivors.rejoined,
        "nothing repeated": survivors.nothing_repeated,
        "same state": survivors.same_state,
        WHOLE: whole.lab_whole,
    },
    Expected.REMEMBERED: {
        "job finished": ending.job_finished,
        "a real fault": hit.rank_fault,
        "new processes": resume.new_processes,
        "newest state": resume.newest_state,
        RESUMED: resume.resumed,
        "little lost": resume.little_lost,
        WHOLE: whole.lab_whole,
    },
    Expected.SICK: {
        "job finished": ending.job_finished,
        "a real fault": health.noticed,
        "avoided": health.avoided,
        "moved, no retry charged": health.moved_free,
        "right checkpoint": resume.right_checkpoint,
        RESUMED: resume.resumed,
        "little lost": resume.little_lost,
        WHOLE: whole.services_whole,
    },
    Expected.DOUBTED: {
        "job finished": ending.finished_or_clear,
        "a real fault": health.noticed,
        "avoided": health.avoided,
        "nothing saved is lost": whole.nothing_lost,
        WENT_ON: resume.went_on,
        WHOLE: whole.services_whole,
    },
    Expected.HEAD_LOST: {**STORE_QUESTIONS, "a real fault": hit.head_fault},
}
"""Outcome -> its questions, in the order of the receipt."""
"""Names of all checks."""
