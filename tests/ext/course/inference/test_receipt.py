"""The receipt of a batch of inference."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from lab.api.base import parse
from lab.api.receipt import Verdict
from lab.errors import NotFoundError, StoreError
from lab.ext.course.batch_documents import BatchEvidence, Tail
from lab.ext.course.inference import receipt as inference
from tests.fakes.store import FakeObjectStore


def evidence() -> dict[str, Any]:
    """Four prompts; the node of one was lost, and it was sent again."""
    answers = [
        {"id": f"p{n}", "sha256": f"sha{n}", "output_tokens": 8, "session": "s", "sent_at": 100.0 + n,
         "ttft": 0.1 * (n + 1), "e2e": 1.0, "attempts": 2 if n == 2 else 1, "checkpoint_sha256": "abc"}
        for n in range(4)
    ]  # fmt: skip
    return {
        "schema": "inference-evidence/1",
        "job": "raysubmit_1",
        "batch": "one",
        "plan": {"output_tokens": 8, "checkpoint_sha256": "abc"},
        "prompts": ["p0", "p1", "p2", "p3"],
        "answers": answers,
        "failures": [{"id": "p2", "attempt": 1, "at": 101.0, "reason": "gone"}],
        "lost_nodes": [{"node_id": "n1", "at": 102.0}],
        "reference": {"p2": "sha2", "p0": "sha0"},
        "figures": None,
    }


def shape(document: Any) -> BatchEvidence:
    """The evidence in a document."""
    return parse(BatchEvidence, document, "the evidence")


def test_a_batch_that_lost_a_node_and_no_prompt_has_recovered() -> None:
    receipt = inference.judge(shape(evidence()))
    assert receipt.verdict is Verdict.RECOVERED
    assert [check.passed for check in receipt.checks] == [True] * 5
    assert receipt.ttft_ms["sent again"] == Tail(1, 300.0, 300.0, 300.0)
    assert receipt.lost_attempts == 1


def test_an_undisturbed_batch_went_as_expected() -> None:
    batch = evidence()
    batch.update(lost_nodes=[], failures=[])
    batch["answers"][2]["attempts"] = 1
    assert inference.judge(shape(batch)).verdict.value == "as-expected"


def missing(batch: Any) -> None:
    del batch["answers"][1]


def twice(batch: Any) -> None:
    batch["answers"].append(copy.deepcopy(batch["answers"][1]))


def foreign(batch: Any) -> None:
    batch["answers"].append({**batch["answers"][1], "id": "q"})


def short(batch: Any) -> None:
    batch["answers"][0]["output_tokens"] = 7


def other(batch: Any) -> None:
    batch["answers"][2]["sha256"] = "another"


def of_another_model(batch: Any) -> None:
    batch["answers"][1]["checkpoint_sha256"] = "def"


def without_a_name(batch: Any) -> None:
    batch["answers"][1]["checkpoint_sha256"] = ""


def of_an_older_recipe(batch: Any) -> None:
    del batch["plan"]["checkpoint_sha256"]
    for answer in batch["answers"]:
        del answer["checkpoint_sha256"]


def unchecked(batch: Any) -> None:
    batch["reference"] = {}


def only_others_checked(batch: Any) -> None:
    batch["reference"] = {"p0": "sha0"}


def nothing_lost_with_it(batch: Any) -> None:
    batch["answers"][2]["attempts"] = 1


@pytest.mark.parametrize(
    ("change", "verdict", "check", "words"),
    [
        (missing, "failed", "every prompt answered once", "1 prompt without answer (p1)"),
        (twice, "failed", "every prompt answered once", "1 prompt answered twice (p1)"),
        (foreign, "failed", "every prompt answered once", "1 prompt unknown (q)"),
        (short, "failed", "answers are whole", "1 with another length than 8"),
        (other, "failed", "same answers", "1 of 2 differ: p2"),
        (of_another_model, "failed", "answers are the checkpoint's", "1 answer of another one: p1"),
        (without_a_name, "not-verified", "answers are the checkpoint's", "did not name the checkpoint"),
        (of_an_older_recipe, "not-verified", "answers are the checkpoint's", "did not name the checkpoint"),
        (unchecked, "not-verified", "same answers", "no answer was recomputed to compare"),
        (only_others_checked, "not-verified", "same answers", "0 of them sent again, of 1"),
        (
            nothing_lost_with_it,
            "not-verified",
            "prompts were in progress on the lost node",
            "no attempt was lost",
        ),
    ],
)
def test_what_went_wrong_is_found(change: Any, verdict: str, check: str, words: str) -> None:
    batch = evidence()
    change(batch)
    receipt = inference.judge(shape(batch))
    assert receipt.verdict.value == verdict
    judged = next(c for c in receipt.checks if c.name == check)
    assert words in judged.detail
    assert judged.passed is not True


def test_a_batch_without_any_answer_has_failed() -> None:
    assert inference.judge(shape({**evidence(), "answers": [], "prompts": []})).verdict is Verdict.FAILED


def test_evidence_is_read_from_the_store_or_refused() -> None:
    store = FakeObjectStore()
    with pytest.raises(NotFoundError, match="no evidence"):
        inference.read(store, "j")
    store.put(".raylab/inference/j.json", json.dumps(evidence()).encode())
    assert inference.read(store, "j") == shape(evidence())
    no_plan = json.dumps({**evidence(), "plan": {}}).encode()
    for wrong in (b"{", b"{}", no_plan, json.dumps({**evidence(), "answers": [{}]}).encode()):
        store.put(".raylab/inference/j.json", wrong)
        with pytest.raises(StoreError, match="cannot be read"):
            inference.read(store, "j")
