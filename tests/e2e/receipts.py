"""What every receipt has to keep."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from tests.e2e.harness import ROOT

SCHEMA = json.loads((ROOT / "lab" / "evidence" / "receipt" / "schema.json").read_text())


def assert_valid(receipt: Any) -> None:
    """The receipt is what its schema says."""
    jsonschema.Draft202012Validator(SCHEMA).validate(receipt)


WEIGHTS = "right weights"
"""The check that is skipped of a script with nothing that Python could tell for weights."""


def assert_recovered(receipt: Any, *skipped: str) -> None:
    """The receipt says `recovered`, and every line of it agrees but those of the checks that were skipped."""
    assert_valid(receipt)
    assert receipt["verdict"] == "recovered", receipt
    assert [check["name"] for check in receipt["checks"] if not check["passed"]] == list(skipped)
    assert [check["name"] for check in receipt["checks"] if check["skipped"]] == list(skipped)
    assert receipt["lost_epochs"] is not None
    assert receipt["lost_epochs"] <= 1, receipt
    assert receipt["problems"] == []
    assert receipt["job"]["status"] == "SUCCEEDED"
    first, again = receipt["attempts"][0], receipt["attempts"][-1]
    assert again["attempt"] > first["attempt"]
    assert again["started_at"] > receipt["fault"]["at"] > first["started_at"]
