"""The receipt: whether training recovered from a fault, proven from evidence. No input or output here."""

from lab.receipt.compare import Compared, Comparison, Curves, compare_curves, compare_runs
from lab.receipt.headline import headline
from lab.receipt.judge import judge
from lab.receipt.model import (
    NOT_REVERTED,
    SCHEMA,
    Attempt,
    CheckpointProof,
    CheckResult,
    Evidence,
    FaultRecord,
    NodeRecord,
    Receipt,
    Timeline,
    Verdict,
)

__all__ = [
    "NOT_REVERTED",
    "SCHEMA",
    "Attempt",
    "CheckResult",
    "CheckpointProof",
    "Compared",
    "Comparison",
    "Curves",
    "Evidence",
    "FaultRecord",
    "NodeRecord",
    "Receipt",
    "Timeline",
    "Verdict",
    "compare_curves",
    "compare_runs",
    "headline",
    "judge",
]
