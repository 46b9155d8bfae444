"""labctl jobs receipt and lose-node: the receipt of a batch of inference."""

from __future__ import annotations

import json
from typing import Any

from lab.api.base import plain
from lab.ext.course.inference.receipt import judge
from tests.ext.course.inference.test_receipt import evidence, shape
from tests.unit.cli.fakes import Labctl


def keep(labctl: Labctl, document: Any) -> None:
    labctl.store.put(f".raylab/inference/{document['job']}.json", json.dumps(document).encode())


def test_a_receipt_is_shown_and_its_verdict_is_the_exit_code(labctl: Labctl) -> None:
    keep(labctl, evidence())
    shown = labctl.ok("jobs", "receipt", "raysubmit_1")
    for words in ("RECOVERED", "every prompt answered once", "sent again", "Time to first token"):
        assert words in shown
    keep(labctl, {**evidence(), "answers": evidence()["answers"][1:]})
    failed = labctl("jobs", "receipt", "raysubmit_1")
    assert failed.exit_code == 10
    assert "1 prompt without answer (p0)" in failed.stderr


def test_the_receipt_is_a_document_too(labctl: Labctl) -> None:
    keep(labctl, evidence())
    assert labctl.json("jobs", "receipt", "raysubmit_1") == plain(judge(shape(evidence())))


def test_a_job_without_a_batch_has_no_such_receipt(labctl: Labctl) -> None:
    assert labctl("jobs", "receipt", "raysubmit_1").exit_code == 3


def test_a_node_is_lost_under_a_batch_as_asked(labctl: Labctl) -> None:
    lose = labctl.stub("lab.ext.course.inference.lose_node", judge(shape(evidence())))
    labctl.ok("jobs", "lose-node", "raysubmit_1")
    labctl.ok("jobs", "lose-node", "raysubmit_1", "ray-worker-1", "--after-answers", "3")
    given = [call.args[1:4] for call in lose.call_args_list]
    assert given == [("raysubmit_1", "", 8), ("raysubmit_1", "ray-worker-1", 3)]
