"""The receipt: whether training recovered from a fault, proven from evidence. No input or output here."""

from lab.api.receipt import Preemption, Steering, Verdict
from lab.evidence.receipt.compare import Comparison, compare_curves, compare_runs
from lab.evidence.receipt.headline import done_twice, headline
from lab.evidence.receipt.judge import judge
from lab.evidence.receipt.model import Evidence, FaultRecord, NodeRecord

__all__ = [
    "Comparison",
    "Evidence",
    "FaultRecord",
    "NodeRecord",
    "Preemption",
    "Steering",
    "Verdict",
    "compare_curves",
    "compare_runs",
    "done_twice",
    "headline",
    "judge",
]
