"""Lesson 7: a node is lost in the middle of a training; the training goes on from its checkpoint."""

from __future__ import annotations

import contextlib

from lab.api.receipt import Verdict
from lab.errors import RefusedError
from lab.evidence.receipt import Evidence as ReceiptEvidence
from lab.evidence.receipt import NodeRecord
from lab.evidence.receipt.case import Case
from lab.evidence.receipt.questions import run_checks
from lab.ext.course.lessons.catalogue.breaking import breaks
from lab.ext.course.lessons.catalogue.training import run_of, succeeded
from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, LessonCheck, NotDoneError, check, holds
from lab.flows.recovery.outside import last_failure

PART = "break"
AFTER_EPOCH = 3
"""labctl breaks the node once this epoch is stored."""


def lost_rank(evidence: Evidence) -> Case:
    """The lesson's run with its last failure, as a receipt judges the loss of a rank.

    Whether a process was lost or a whole node is not known here. Raises NotDoneError unless an attempt failed
    and another one trained after it.
    """
    job, run = evidence.submitted(PART), run_of(evidence, PART)
    nodes = tuple(NodeRecord(n.service, n.node_id, n.alive, n.started_at) for n in evidence.nodes)
    with contextlib.suppress(RefusedError):
        fault = last_failure(evidence.histories[job.submission_id], job.submission_id)
        case = Case(ReceiptEvidence(job.submission_id, job.status, fault, nodes=nodes), run)
        if case.new is not None and case.new.first:
            return case
    lack = "no attempt failed and was followed by another one"
    raise NotDoneError(lack, f"{SUBMIT}, and break it sooner")


def asks(question: str, name: str, hint: str) -> LessonCheck:
    """A check that asks a question of the receipt."""

    @check(name, hint)
    def look(evidence: Evidence) -> str:
        case = lost_rank(evidence)
        check = next(candidate for candidate in run_checks(case) if candidate.id == question)
        return holds(check.passed, check.detail)

    return look


@check("labctl's receipt", "`labctl status` says what is down; run the notebook again")
def receipt_agrees(evidence: Evidence) -> str:
    """labctl's receipt says `recovered`; where the notebook did it without labctl, the ledger decides."""
    if mine := evidence.receipts_of(PART):
        verdict = mine[-1].verdict
        wrong = [f"{check.name}: {check.detail}" for check in mine[-1].checks if not check.passed]
        holds(verdict is Verdict.RECOVERED, "; ".join([verdict.value, *wrong]))
        return verdict.value
    lost_rank(evidence)
    return "there is no receipt; the ledger decides"


LESSON = Lesson(
    number=7,
    name="fault-tolerance",
    title="Fault tolerance",
    minutes=20,
    checks=(
        asks("fault", "the fault was real", f"{SUBMIT}, and wait for the first epochs"),
        asks(
            "right-checkpoint", "the newest checkpoint was loaded",
            "the script must load what get_checkpoint() gives",
        ),
        asks("resumed", "resumed, not restarted", "the script must go on from what it loads"),
        asks("little-lost", "little was repeated", "save a checkpoint in every epoch, and load the newest"),
        succeeded(PART),
        receipt_agrees,
    ),
    needs=("food11",),
    breaks_node=True,
    host_task=breaks(7, [PART], "kill", AFTER_EPOCH),
    seconds=1800.0,
)  # fmt: skip
