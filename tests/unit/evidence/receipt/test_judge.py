"""Receipts of many stories of a job that lost a node."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from lab.api.base import parse, plain
from lab.api.ledger import WithMetrics
from lab.api.receipt import ReceiptDocument
from lab.evidence.ledger import Event, History, manifest_sha256, number
from lab.evidence.receipt import Evidence, FaultRecord, NodeRecord, Verdict, compare_runs, judge
from tests.unit.data.stories import (
    CHECKS,
    DATA,
    FAULT,
    KILLED,
    MIDWAY,
    NODES,
    PAUSED,
    ROWS,
    SERVICES,
    Row,
    Story,
    content,
    event,
    evidence,
    real,
    report,
    saved_by,
    uri,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_verdict_and_the_checks_of_a_story(row: Row) -> None:
    receipt = judge(row.evidence)
    assert (receipt.verdict.value, not_passed(receipt)) == (row.verdict, row.not_passed), receipt
    said = [receipt.reason, *(c.detail for c in receipt.checks)]
    assert any(row.says in text for text in said), said


def test_every_verdict_has_a_story_and_every_check_one_that_passes_and_one_that_fails() -> None:
    assert {row.verdict for row in ROWS} == {v.value for v in Verdict if v is not Verdict.AS_EXPECTED}
    for check in CHECKS:
        known = [c for row in ROWS for c in judge(row.evidence).checks if c.name == check]
        assert {(c.passed, c.known) for c in known} >= {(True, True), (False, False)}, check
        if check != FAULT:  # a fault that hit nothing leaves nothing to judge
            assert any(not c.passed and c.known for c in known), check


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_receipt_has_the_seven_checks_in_order_and_has_its_shape(row: Row) -> None:
    document = plain(judge(row.evidence))
    assert tuple(c["name"] for c in document["checks"]) == CHECKS
    assert plain(parse(ReceiptDocument, document, "receipt")) == document


@pytest.mark.parametrize("patches", [["elastic", "forks"], [], None, "elastic"])
def test_a_receipt_says_what_the_lab_changed_of_ray(patches: Any) -> None:
    events = tuple(
        replace(e, fields={**e.fields, "patches": patches}) if e.event == "run_started" else e
        for e in Story().events()
    )
    document = plain(judge(evidence(events=events)))
    assert document["patches"] == (patches if isinstance(patches, list) else None)
    assert plain(parse(ReceiptDocument, document, "receipt")) == document


@pytest.mark.parametrize("row", [r for r in ROWS if r.verdict != "recovered"], ids=lambda row: row.name)
def test_events_that_are_missing_never_make_a_recovery(row: Row) -> None:
    for name in {e.event for e in row.evidence.events}:
        events = tuple(e for e in row.evidence.events if e.event != name)
        assert judge(replace(row.evidence, events=events)).verdict is not Verdict.RECOVERED, name


@pytest.mark.parametrize(
    "name",
    [
        "run_started",
        "attempt_started",
        "report",
        "state_begun",
        "state_handed",
        "checkpoint_committed",
        "run_finished",
    ],
)
def test_a_recovery_is_not_verified_without_the_events_that_prove_it(name: str) -> None:
    assert judge(evidence(Story(without=(name,)))).verdict is Verdict.NOT_VERIFIED


@pytest.mark.parametrize("cut", range(len(Story().events())))
def test_a_ledger_that_breaks_off_never_makes_a_recovery(cut: int) -> None:
    events = sorted(Story().events(), key=lambda e: e.at)[:cut]
    assert judge(evidence(events=tuple(events))).verdict is not Verdict.RECOVERED


def test_of_two_runs_that_were_hit_the_worse_one_counts() -> None:
    good, bad = Story(run="good"), Story(run="bad", second=(1, 2, 3, 4, 5))
    receipt = judge(evidence(events=(*good.events(), *bad.events())))
    assert (receipt.verdict, receipt.run) == (Verdict.RESTARTED, "bad")


def test_a_run_that_was_over_before_the_fault_does_not_count() -> None:
    earlier = tuple(replace(e, at=e.at - 100) for e in Story(run="earlier", second=(1, 2)).events())
    receipt = judge(evidence(events=(*earlier, *Story().events())))
    assert (receipt.verdict, receipt.run) == (Verdict.RECOVERED, "run")


@pytest.mark.parametrize(
    ("story", "lost"),
    [
        (Story(), 0),
        (Story(second=(3, 4, 5), loads=(2,)), 1),
        (Story(second=(1, 2, 3, 4, 5)), 3),
        (Story(second=(5,)), 0),
        (Story((10, 20, 30), (20, 30), key="step"), 2),
        (Story(more=(saved_by(0, 4, content(4), epoch=4),)), 1),
        (Story(more=(report(8.5, 1, 4),)), 0),
        (Story(second=()), None),
        (Story(takes_over=False), None),
    ],
    ids=[
        "nothing",
        "one",
        "everything",
        "skipped",
        "steps",
        "saved, not committed",
        "reported when over",
        "silent",
        "none",
    ],
)
def test_what_was_lost_is_counted_in_reports(story: Story, lost: int | None) -> None:
    assert judge(evidence(story)).lost_epochs == lost


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({}, (0.7, 1, 1.7, 3.2, 3.3, 4.1, 5.5)),
        ({"nodes": NODES[:3]}, (0.7, 1, 1.7, 3.2, 3.3, 4.1, None)),
        (PAUSED, (None, 1, 1.7, 3.2, 3.3, 4.1, None)),
        ({"events": ()}, (0.7, None, None, None, None, None, 5.5)),
        ({"events": MIDWAY.events()}, (0.7, None, None, None, None, None, 5.5)),
    ],
)
def test_the_timeline_counts_from_the_fault_and_leaves_out_what_did_not_happen(
    other: dict[str, Any], expected: tuple[float | None, ...]
) -> None:
    timeline = plain(judge(evidence(**other)))["timeline"]
    keys = ("node_dead", "failure_detected", "attempt_started", "restored")
    later = ("first_step", "first_report", "node_rejoined")
    assert timeline == dict(zip((*keys, *later), expected, strict=True))


def test_the_checkpoint_is_shown_with_what_was_loaded_instead() -> None:
    proof = judge(evidence(Story(second=(3, 4, 5), loads=(2,)))).checkpoint
    assert proof is not None
    assert (proof.uri, proof.epoch) == (uri(3), 3)
    assert (proof.saved_sha256, proof.loaded_sha256) == tuple(manifest_sha256(content(n)) for n in (3, 2))


def test_moving_to_the_restarted_node_is_said() -> None:
    moved = judge(evidence(Story(nodes=(("a",), ("a2",))))).checks[2]
    assert (moved.passed, moved.detail) == (
        True,
        "attempt 2 ran on ray-worker-0, where ray-worker-0 is the restarted one (new node a2)",
    )


def test_the_json_is_the_public_contract() -> None:
    golden = DATA / "receipt_recovered.json"
    document = json.loads(json.dumps(plain(judge(evidence(stored={uri(3): content(3)})))))
    assert repr(document) == repr(json.loads(golden.read_text())), "also the order of fields, 1 and 1.0"


def not_passed(receipt: ReceiptDocument) -> set[str]:
    return {c.name for c in receipt.checks if not c.passed}


# The ledgers of a real job whose node was killed, and of one that was left alone


def real_evidence(events: Iterable[Event]) -> Evidence:
    """The fault, and the node's death and return, as they were recorded."""
    lost, other = (
        next(
            n
            for a in History.of(real("ledger_kill")).runs[0].attempts
            if a.number == i
            for n in a.nodes.values()
        )
        for i in (1, 2)
    )
    at = 1795570561.321
    return Evidence(
        submission_id="k3",
        job_status="SUCCEEDED",
        fault=FaultRecord("kill", "ray-worker-0", lost, at, reverted_at=at + 2.274, traits=KILLED),
        events=tuple(events),
        nodes=(
            NodeRecord("ray-worker-0", lost, False, at - 9, at + 0.132, "health check failed"),
            NodeRecord("ray-worker-1", other, True, at - 8),
            NodeRecord("ray-worker-0", "new", True, at + 2.182),
        ),
        services=SERVICES,
    )


def test_a_real_kill_is_judged_recovered() -> None:
    receipt = judge(real_evidence(real("ledger_kill")))
    assert (receipt.verdict, not_passed(receipt), receipt.lost_epochs) == (Verdict.RECOVERED, set(), 0)
    assert receipt.checkpoint is not None
    assert receipt.checkpoint.epoch == 6
    assert receipt.checkpoint.saved_sha256 == receipt.checkpoint.loaded_sha256
    assert plain(receipt)["timeline"]["first_report"] == 1.884
    assert [(a.nodes, a.first_epoch, a.last_epoch) for a in receipt.attempts] == [
        (("ray-worker-0",), 1, 6),
        (("ray-worker-1",), 7, 20),
    ]


def test_the_same_kill_is_exposed_when_the_epochs_begin_anew() -> None:
    events = [
        replace(
            e,
            fields={**e.fields, "metrics": {**e.payload.metrics, "epoch": epoch - 6}},
        )
        if e.attempt == 2
        and isinstance(e.payload, WithMetrics)
        and (epoch := number(e.payload.metrics.get("epoch"))) is not None
        else e
        for e in real("ledger_kill")
    ]
    receipt = judge(real_evidence(events))
    assert receipt.verdict is Verdict.RESTARTED
    assert "although there was a checkpoint of epoch 6" in receipt.reason


def test_an_undisturbed_real_run_is_not_a_recovery() -> None:
    events = [replace(e, job="k3") for e in real("ledger_undisturbed")]
    assert judge(real_evidence(events)).verdict is Verdict.NOT_VERIFIED


def test_the_real_recovered_run_ended_with_the_weights_of_the_undisturbed_one() -> None:
    comparison = compare_runs(History.of(real("ledger_kill")), History.of(real("ledger_undisturbed")))
    assert comparison.weights == "equal"
    assert comparison.detail.startswith("epoch 20, val_accuracy 0.")
    assert " and " not in comparison.detail


@pytest.mark.parametrize(
    ("a", "b", "detail"),
    [
        ({"epoch": 5, "val_a": 1, "weights_sha256": "w"}, {"epoch": 5, "val_a": 1},
         "epoch 5, val_a 1, weights_sha256 w and unknown"),
        ({"epoch": 5, "val_loss": 0.5}, {"epoch": 4, "val_loss": 0.4}, "epoch 5 and 4, val_loss 0.5 and 0.4"),
        ({"epoch": 5, "val_a": 1, "val_b": 2}, {"epoch": 5, "val_a": 1},
         "epoch 5, val_a 1, val_b 2 and unknown"),
        ({"epoch": 5, "val_a": 1, "val_b": 2}, {"epoch": 5, "val_a": 2},
         "epoch 5, val_a 1 and 2, val_b 2 and unknown"),
        ({"epoch": 5, "loss": 1}, {"epoch": 5, "loss": 2}, "epoch 5"),
        ({"epoch": 5}, None, "epoch 5 and unknown"),
        ({"epoch": 3, "val_loss": 1 / 3}, {"epoch": 4, "val_loss": 1 / 4},
         "epoch 3 and 4, val_loss 0.3333 and 0.25"),
    ],
)  # fmt: skip
def test_two_runs_are_compared_by_their_last_reports(
    a: dict[str, Any], b: dict[str, Any] | None, detail: str
) -> None:
    comparison = compare_runs(reported(a), reported(b))
    assert comparison.detail == detail
    assert comparison.weights == "unknown"


@pytest.mark.parametrize(("other", "likeness"), [("v", "different"), ("w", "equal")])
def test_weights_are_compared_by_the_sum_that_a_script_reports(other: str, likeness: str) -> None:
    comparison = compare_runs(*(reported({"epoch": 5, "weights_sha256": sha}) for sha in ("w", other)))
    assert comparison.weights == likeness


@pytest.mark.parametrize(("other", "likeness"), [("v", "different"), ("w", "equal")])
def test_weights_are_compared_by_the_last_states_of_both_runs(other: str, likeness: str) -> None:
    def trained(digest: str) -> History:
        state = {"tensors": {"a": digest, "mean": "m"}, "order": [["a"]]}
        handed = event("state_handed", 2, 1, 0, report=1, state=state)
        started = event("attempt_started", 0, 1, workers=[{"rank": 0, "node_id": "n"}])
        return History.of((started, handed, event("report", 2, 1, 0, metrics={"epoch": 5}, report=1)))

    comparison = compare_runs(trained("w"), trained(other))
    assert comparison.weights == likeness
    assert comparison.detail.startswith("epoch 5, weights ")


def reported(metrics: dict[str, Any] | None) -> History:
    """A run that ended with this report, or none."""
    early = event("report", 1, 1, 0, metrics={"epoch": 1, "val_loss": 9, "weights_sha256": "early"})
    return History.of(() if metrics is None else (early, event("report", 2, 1, 0, metrics=metrics)))
