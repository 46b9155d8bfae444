"""Lesson 7: a node is lost in the middle of a training; the training goes on from its checkpoint."""

from __future__ import annotations

from lab.api.receipt import Verdict
from lab.evidence.receipt import Evidence as ReceiptEvidence
from lab.evidence.receipt import FaultRecord, NodeRecord
from lab.evidence.receipt.case import Case
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.questions import run_checks
from lab.ext.course.lessons.catalogue.breaking import breaks
from lab.ext.course.lessons.catalogue.training import SUBMIT, run_of, succeeded
from lab.ext.course.lessons.model import (
    Evidence,
    Lesson,
    LessonCheck,
    answer,
    failed,
    passed,
)
from lab.topology import Check

PART = "break"
AFTER_EPOCH = 3
"""labctl breaks the node once this epoch is stored."""


def lost_rank(evidence: Evidence) -> Case | None:
    """The lesson's run with its first failure, as a receipt judges the loss of a rank.

    Whether a process was lost or a whole node is not known here. None unless an attempt failed and another
    one trained after it.
    """
    job, run = evidence.job(PART), run_of(evidence, PART)
    hit = next((a for a in run.attempts if a.failure_detected_at is not None), None) if run else None
    if job is None or run is None or hit is None or hit.failure_detected_at is None or not hit.nodes:
        return None
    node = hit.nodes[min(hit.nodes)]
    signs = [report.at for report in hit.reports]
    signs += [checkpoint.at for checkpoint in run.checkpoints if checkpoint.attempt == hit.number]
    last = min(max(signs, default=hit.failure_detected_at), hit.failure_detected_at)
    fault = FaultRecord(
        "failure", evidence.service_of(node) or "a lost node", node, last, expected=Expected.RANK_LOST,
    )  # fmt: skip
    nodes = tuple(NodeRecord(n.service, n.node_id, n.alive, n.started_at) for n in evidence.nodes)
    case = Case(ReceiptEvidence(job.submission_id, job.status, fault, nodes=nodes), run)
    return case if case.new is not None and case.new.first else None


def asks(question: str, name: str, hint: str) -> LessonCheck:
    """A check that asks a question of the receipt."""

    def check(evidence: Evidence) -> Check:
        case = lost_rank(evidence)
        if case is None:
            lacks = "no attempt failed and was followed by another one"
            return failed(name, lacks, f"{SUBMIT}, and break it sooner")
        check = next(candidate for candidate in run_checks(case) if candidate.id == question)
        return answer(check.passed, name, check.detail, hint)

    return check


def receipt_agrees(evidence: Evidence) -> Check:
    """labctl's receipt says `recovered`; where the notebook did it without labctl, the ledger decides."""
    name = "labctl's receipt"
    if mine := evidence.receipts_of(PART):
        verdict = mine[-1].verdict
        wrong = [f"{check.name}: {check.detail}" for check in mine[-1].checks if not check.passed]
        recovered = verdict is Verdict.RECOVERED
        detail = "; ".join([verdict.value, *([] if recovered else wrong)])
        hint = "`labctl status` says what is down; run the notebook again"
        return answer(recovered, name, detail, hint)
    if lost_rank(evidence) is None:
        return failed(name, "there is no receipt, and the ledger has no fault either", SUBMIT)
    return passed(name, "there is no receipt; the ledger decides")


LESSON = Lesson(
    number=7,
    name="fault-tolerance",
    title="Fault tolerance",
    notebook="07-fault-tolerance.ipynb",
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
