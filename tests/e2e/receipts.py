"""What every receipt has to keep."""

from __future__ import annotations

from typing import Any

from lab.api.base import parse, plain
from lab.api.receipt import ReceiptDocument


def assert_valid(receipt: Any) -> None:
    """The receipt has its shape, and nothing beside it."""
    assert plain(parse(ReceiptDocument, receipt, "the receipt")) == receipt


STATE = "same state"
"""The check that is skipped of a script with nothing that Python could tell for weights: it is `resumed`."""


def assert_recovered(receipt: Any, *skipped: str) -> None:
    """The receipt says `recovered`, or `resumed` where the state was not compared; every line of it agrees,
    but those of the checks that were skipped."""
    assert_valid(receipt)
    assert receipt["verdict"] == ("resumed" if STATE in skipped else "recovered"), receipt
    assert [check["name"] for check in receipt["checks"] if not check["passed"]] == list(skipped)
    assert [check["name"] for check in receipt["checks"] if check["skipped"]] == list(skipped)
    assert receipt["lost_epochs"] is not None
    assert receipt["lost_epochs"] <= 1, receipt
    assert receipt["problems"] == []
    assert receipt["job"]["status"] == "SUCCEEDED"
    first, again = receipt["attempts"][0], receipt["attempts"][-1]
    assert again["attempt"] > first["attempt"]
    assert again["started_at"] > receipt["fault"]["at"] > first["started_at"]
