"""Words of a receipt, from its JSON: its headline, which tells how training went, and the work done twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.evidence.ledger import Number, number
from lab.evidence.receipt.expected import Expected
from lab.evidence.receipt.model import NOT_REVERTED, Verdict
from lab.evidence.receipt.questions import WHOLE

RECOVERED_NOT_WHOLE = "recovered, lab not whole"
AS_EXPECTED_NOT_WHOLE = "as-expected, lab not whole"
WENT_ON = "went on"
FROM_MEMORY = "recovered from memory"

OPEN = (Verdict.FAILED.value, Verdict.NOT_VERIFIED.value)


def headline(receipt: Mapping[str, Any]) -> str:
    """Return the headline of a receipt, from its JSON: its verdict, or one of the texts above.

    Those are more exact than `recovered`: from no checkpoint; and than `failed` and `not-verified`: the lab
    alone is not whole; or training went on to the job's end after the fault, and something else is wrong.
    """
    verdict = str(receipt["verdict"])
    if verdict == Verdict.RECOVERED.value:
        outcome = (receipt.get("expected") or {}).get("outcome")
        return FROM_MEMORY if outcome == Expected.REMEMBERED.value else verdict
    if verdict not in OPEN:
        return verdict
    resumed = (receipt.get("timeline") or {}).get("first_report") is not None
    asked = [check for check in receipt.get("checks") or () if not check.get("skipped")]
    not_passed = [check["name"] for check in asked if not check["passed"]]
    problems = [p for p in receipt.get("problems") or () if not str(p).startswith(NOT_REVERTED)]
    if not_passed == [WHOLE] and not problems:
        return RECOVERED_NOT_WHOLE if resumed else AS_EXPECTED_NOT_WHOLE
    succeeded = (receipt.get("job") or {}).get("status") == "SUCCEEDED"
    return WENT_ON if verdict == Verdict.FAILED.value and succeeded and resumed else verdict


def done_twice(receipt: Mapping[str, Any]) -> tuple[Number | None, str]:
    """Return the work done twice and its unit, from a receipt's JSON. Earlier labs counted reports alone."""
    work = receipt.get("lost_work")
    if work:
        return number(work["amount"]), str(work["unit"])
    return number(receipt.get("lost_epochs")), str(receipt.get("epoch_key") or "epoch")
