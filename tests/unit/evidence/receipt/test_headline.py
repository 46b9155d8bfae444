"""The first line of a receipt: how the training went, when the lab alone is not whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.api.receipt import LostWork, ReceiptDocument
from lab.evidence.receipt import done_twice, headline, judge
from lab.evidence.receipt.model import NOT_REVERTED
from lab.topology import ServiceStatus, State
from tests.unit.data.stories import FAULT_KILL, NODES, SERVICES, Story, evidence
from tests.unit.evidence.receipt.test_outcomes import STORED, fault

SICK = (*SERVICES, ServiceStatus("jupyter", State.EXITED, "gone"))
UNDONE = f"{NOT_REVERTED}: ray-worker-0 ended while starting"


def of(receipt: ReceiptDocument) -> tuple[str, str]:
    return receipt.verdict.value, headline(receipt)


@pytest.mark.parametrize(
    ("other", "missing"),
    [
        ({"services": SICK}, "jupyter is exited: gone"),
        ({"nodes": NODES[:3]}, "ray-worker-0 is not back among Ray's nodes"),
        ({"fault": replace(FAULT_KILL, reverted_at=None), "problems": (UNDONE,)}, UNDONE),
    ],
)
def test_a_training_that_recovered_in_a_lab_that_did_not_is_said_to_have(
    other: dict[str, Any], missing: str
) -> None:
    receipt = judge(evidence(**other))
    assert of(receipt) == ("failed", "recovered, lab not whole")
    assert receipt.reason.startswith(
        "training recovered (attempt 2 began with epoch 4, its checkpoint is of epoch 3), but the lab is not "
    )
    assert missing in receipt.reason


def test_what_is_not_known_of_the_lab_is_no_doubt_of_the_training() -> None:
    receipt = judge(evidence(services=()))
    assert of(receipt) == ("not-verified", "recovered, lab not whole")
    assert "training recovered" in receipt.reason
    assert "whether the lab is whole is not known" in receipt.reason


def test_a_training_that_had_nothing_to_resume_went_as_it_should() -> None:
    away = fault("s3-down", store_refusals=3, reverted_at=9.0)
    story = Story(first=(1, 2, 3, 4, 5), takes_over=False)
    receipt = judge(evidence(story, fault=away, stored=STORED, services=SICK))
    assert of(receipt) == ("failed", "as-expected, lab not whole")
    assert receipt.reason.startswith("training went as it should (")


def test_a_gap_in_the_evidence_leaves_the_recovery_unproven() -> None:
    receipt = judge(evidence(services=SICK, problems=("the ledger could not be read",)))
    assert of(receipt) == ("failed", "went on")
    assert "nor is the recovery proven: the ledger could not be read" in receipt.reason


@pytest.mark.parametrize(
    ("story", "status", "said"),
    [
        (Story(), "SUCCEEDED", ("recovered", "recovered")),
        (Story(second=(5,)), "SUCCEEDED", ("failed", "went on")),
        (Story(weights=None), "SUCCEEDED", ("resumed", "resumed")),
        (Story(), "FAILED", ("failed", "failed")),
        (Story(loads=(), weights=None), "SUCCEEDED", ("not-verified", "not-verified")),
        (Story(loads=()), "SUCCEEDED", ("failed", "went on")),
    ],
)
def test_the_others_are_headed_as_ever(story: Story, status: str, said: tuple[str, str]) -> None:
    assert of(judge(evidence(story, job_status=status))) == said


def test_work_done_twice_is_told_in_the_unit_of_the_run() -> None:
    steps = Story(first=(100, 200, 300), second=(300, 400), every=2, key="step", loads=(200,))
    receipt = judge(evidence(steps))
    assert receipt.lost_epochs == 1, "in reports, as ever"
    assert receipt.lost_work == LostWork(amount=100, checkpoint_interval=200, unit="step", unreported=99)
    assert done_twice(receipt) == (100, "step")


def test_a_receipt_of_an_earlier_lab_counts_reports() -> None:
    receipt = replace(judge(evidence(Story())), lost_work=None)
    assert done_twice(receipt) == (0, "epoch")
