"""The receipt: whether training recovered from a fault, proven from evidence. No input or output here."""

from lab.evidence.receipt.compare import Compared, Comparison, Curves, compare_curves, compare_runs
from lab.evidence.receipt.headline import headline
from lab.evidence.receipt.judge import judge
from lab.evidence.receipt.model import (
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
