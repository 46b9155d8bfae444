"""Lesson 7: a node is lost in the middle of a training; the training goes on from its checkpoint."""

from __future__ import annotations

from lab.api.receipt import Verdict
from lab.evidence.receipt import Evidence as ReceiptEvidence
from lab.evidence.receipt import FaultRecord, NodeRecord
from lab.evidence.receipt.case import Case
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.questions import run_checks
from lab.ext.course.lessons.catalogue.breaking import breaks
from lab.ext.course.lessons.catalogue.training import run_of, succeeded
from lab.ext.course.lessons.model import SUBMIT, Evidence, Lesson, LessonCheck, check, holds, need

PART = "break"
AFTER_EPOCH = 3
"""labctl breaks the node once this epoch is stored."""


def lost_rank(evidence: Evidence) -> Case:
    """The lesson's run with its first failure, as a receipt judges the loss of a rank.

    Whether a process was lost or a whole node is not known here. Raises NotDoneError unless an attempt failed
    and another one trained after it.
    """
    lack, hint = "no attempt failed and was followed by another one", f"{SUBMIT}, and break it sooner"
    job, run = evidence.submitted(PART), run_of(evidence, PART)
    failures = ((a, a.failure_detected_at) for a in run.attempts if a.failure_detected_at is not None)
    hit, noticed = need(next(failures, None), lack, hint)
    node = hit.nodes[min(hit.nodes)]
    signs = [report.at for report in hit.reports]
    signs += [checkpoint.at for checkpoint in run.checkpoints if checkpoint.attempt == hit.number]
    last = min(max(signs, default=noticed), noticed)
    service = evidence.service_of(node) or "a lost node"
    fault = FaultRecord("failure", service, node, last, expected=Expected.RANK_LOST)
    nodes = tuple(NodeRecord(n.service, n.node_id, n.alive, n.started_at) for n in evidence.nodes)
    case = Case(ReceiptEvidence(job.submission_id, job.status, fault, nodes=nodes), run)
    holds(case.new is not None and bool(case.new.first), lack, hint)
    return case


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
