"""The questions of the receipt: one file per subject, and which of them a fault's outcome asks.

Each answers from the evidence alone, in numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lab.api.receipt import CHECKS, CheckDocument
from lab.evidence.receipt.case import SKIPPED, Answer, Case
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.questions import (
    ending,
    health,
    hit,
    progress,
    queues,
    resume,
    state,
    survivors,
    whole,
)

FINISHED, FAULT = "finished", "fault"
RIGHT, STATE = "right-checkpoint", "same-state"
RESUMED, LOST = "resumed", "little-lost"
WENT_ON = "went-on"
SURVIVED = "survivors-went-on"
WHOLE = "lab-whole"
"""Always the last question, and the only one that is not about the training."""

Questions = Mapping[str, Callable[[Case], Answer]]
"""Id of a check -> question."""


def run_checks(case: Case) -> tuple[CheckDocument, ...]:
    """Answer all questions of the fault's outcome, in order."""
    answers = ((key, question(case)) for key, question in questions_of(case).items())
    return tuple(
        CheckDocument(CHECKS[key], yes is True, detail, known=isinstance(yes, bool), skipped=yes is SKIPPED)
        for key, (yes, detail) in answers
    )


def questions_of(case: Case) -> Questions:
    """Return the questions of the fault's outcome.

    Where a training may go on as it was, but had to start again, that is asked as after any other loss: of a
    job that failed, as it may, too, once it reported again, be it after a further fault.
    """
    own = QUESTIONS[case.fault.expected]
    later = (a for a in case.attempts if case.hit and a.number > case.hit.number)
    excused = case.failed_as_it_may and not any(a.by_rank or a.taken_up for a in later)
    if WENT_ON not in own or not case.resumed or excused:
        return own
    return {
        name: question
        for own_name, own_question in own.items()
        for name, question in (RESUME.items() if own_name == WENT_ON else [(own_name, own_question)])
    }


def _without(questions: Questions, name: str) -> Questions:
    return {own: question for own, question in questions.items() if own != name}


RESUME: Questions = {
    RIGHT: resume.right_checkpoint,
    STATE: state.same_state,
    RESUMED: progress.resumed,
    LOST: progress.little_lost,
}
"""Asked of every training that had to start again, whatever the fault was."""

STORE_QUESTIONS: Questions = {
    FINISHED: ending.finished_or_clear,
    FAULT: hit.store_fault,
    "nothing-lost": whole.nothing_lost,
    WENT_ON: resume.went_on,
    WHOLE: whole.services_whole,
}

QUESTIONS: Mapping[Expected, Questions] = {
    Expected.NODE_LOST: {
        FINISHED: ending.job_finished,
        FAULT: hit.node_fault,
        "moved": resume.moved,
        **RESUME,
        WHOLE: whole.lab_whole,
    },
    Expected.RANK_LOST: {
        FINISHED: ending.job_finished,
        FAULT: hit.rank_fault,
        "new-processes": resume.new_processes,
        **RESUME,
        WHOLE: whole.services_whole,
    },
    Expected.CHECKPOINT_DAMAGED: {
        FINISHED: ending.job_finished,
        FAULT: hit.checkpoint_fault,
        "new-processes": resume.new_processes,
        "intact-checkpoint": resume.intact_checkpoint,
        **_without(RESUME, RIGHT),
        WHOLE: whole.services_whole,
    },
    Expected.STORE_AWAY: STORE_QUESTIONS,
    Expected.SLOWED: STORE_QUESTIONS,
    Expected.PREEMPTED: {
        FINISHED: ending.job_finished,
        FAULT: queues.preempted,
        "gave-way": queues.gave_way,
        **RESUME,
        WHOLE: whole.services_whole,
    },
    Expected.SURVIVED: {
        FINISHED: ending.job_finished,
        FAULT: survivors.rank_lost,
        SURVIVED: survivors.went_on,
        "rejoined": survivors.rejoined,
        "nothing-repeated": survivors.nothing_repeated,
        "equal-ranks": survivors.same_state,
        WHOLE: whole.lab_whole,
    },
    Expected.REMEMBERED: {
        FINISHED: ending.job_finished,
        FAULT: hit.rank_fault,
        "new-processes": resume.new_processes,
        "newest-state": resume.right_checkpoint,
        **_without(RESUME, RIGHT),
        WHOLE: whole.lab_whole,
    },
    Expected.SICK: {
        FINISHED: ending.job_finished,
        FAULT: health.noticed,
        "avoided": health.avoided,
        "moved-free": health.moved_free,
        **RESUME,
        WHOLE: whole.services_whole,
    },
    Expected.DOUBTED: {
        FINISHED: ending.finished_or_clear,
        FAULT: health.noticed,
        "avoided": health.avoided,
        **_without(_without(STORE_QUESTIONS, FINISHED), FAULT),
    },
    Expected.HEAD_LOST: {**STORE_QUESTIONS, FAULT: hit.head_fault},
}
"""Outcome -> its questions, in the order of the receipt."""
