"""Evidence for reports: a real run that lost a node, the same one undisturbed, and made-up ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lab.api.ledger import Reported
from lab.api.receipt import ReceiptDocument
from lab.evidence.ledger import Event, History, number
from lab.evidence.receipt import Evidence as Case
from lab.evidence.receipt import FaultRecord, NodeRecord, compare_curves, judge
from lab.ext.report.labels import PARTS
from lab.ext.report.model import ReportEvidence, Subject
from tests.unit.data.stories import KILLED, SERVICES, Story, evidence, real

AT = 1795570561.321
"""When the real fault came, in seconds since the epoch."""

LOST, OTHER, BACK = "lost-node", "other-node", "new-node"
MACHINE = {"python": "3.11.9", "ray": "2.60.0", "torch": "2.13.0", "cores": 2, "memory_bytes": 8 * 2**30}


def nodes_of(events: tuple[Event, ...]) -> dict[int, str]:
    """Attempt -> the node of its rank 0."""
    return {a.number: a.nodes[0] for a in History.of(events).runs[0].attempts}


def kill_receipt() -> ReceiptDocument:
    """The receipt of the real run that lost a node."""
    events = real("ledger_kill")
    lost, other = nodes_of(events)[1], nodes_of(events)[2]
    return judge(
        Case(
            submission_id="k3",
            job_status="SUCCEEDED",
            fault=FaultRecord("kill", "ray-worker-0", lost, AT, reverted_at=AT + 3, traits=KILLED),
            events=events,
            nodes=(
                NodeRecord("ray-worker-0", lost, False, AT - 43.7, AT + 0.87, "health check failed"),
                NodeRecord("ray-worker-1", other, True, AT - 282.1),
                NodeRecord("ray-worker-0", BACK, True, AT + 4),
            ),
            services=SERVICES,
        )
    )


def full(**changes: Any) -> ReportEvidence:
    """Everything there can be about the real run: receipt, ledger, control run, samples, versions."""
    events, control = real("ledger_kill"), real("ledger_undisturbed")
    history, other = History.of(events), History.of(control)
    nodes = nodes_of(events)
    seconds = (0.965, 0.3, 0.2, 2.4, 5.1, 0.6, 0.174, 2.6)
    receipt = replace(kill_receipt(), breakdown=dict(zip(PARTS, seconds, strict=True)))
    given: dict[str, Any] = {
        "subject": Subject("k3", receipt, ".raylab/receipts/k3-1795210474.json"),
        "lab": "raylab",
        "runtime": "compose",
        "history": history,
        "control_job": "k4",
        "control": other,
        "curves": compare_curves(history, other),
        "services": {nodes[1]: "ray-worker-0", nodes[2]: "ray-worker-1"},
        "workers": ("ray-worker-0", "ray-worker-1"),
        "job": {"status": "SUCCEEDED", "entrypoint": "python train.py --epochs 20", "recipe": "digits"},
        "machine": MACHINE,
        "gpus": "simulated, one logical GPU per worker",
        "settings": (("RAY_health_check_period_ms", "200 (stock: 3000)"),),
    }
    return ReportEvidence(**{**given, **changes})


def receipt_of(evidence: ReportEvidence) -> ReceiptDocument:
    """The receipt that the evidence is about."""
    assert evidence.subject.receipt is not None
    return evidence.subject.receipt


def with_receipt(evidence: ReportEvidence, **changes: Any) -> ReportEvidence:
    """The evidence about a receipt with other fields."""
    receipt = replace(receipt_of(evidence), **changes)
    return replace(evidence, subject=replace(evidence.subject, receipt=receipt))


def from_file() -> ReportEvidence:
    """A receipt alone, as when the lab is down."""
    return ReportEvidence(Subject("k3", kill_receipt()), missing=("the lab is down: curves are missing",))


def undisturbed() -> ReportEvidence:
    """A job without a fault."""
    events = real("ledger_undisturbed")
    return full(
        subject=Subject(events[0].job), history=History.of(events), control=None, control_job="", curves=None,
    )  # fmt: skip


def two_ranks() -> ReportEvidence:
    """Two ranks, of which one is lost, from a made-up story; the second attempt does two epochs again."""
    story = Story(nodes=(("a", "b"), ("b", "b")), loads=(2, 2), first=(1, 2, 3), second=(2, 3, 4, 5))
    events = tuple(_with_loss(event) for event in story.events())
    receipt = judge(replace(evidence(), events=events))
    return ReportEvidence(
        Subject("job", receipt), lab="raylab", runtime="local", history=History.of(events),
        services={"a": "ray-worker-0", "b": "ray-worker-1", "a2": "ray-worker-0"},
    )  # fmt: skip


def _with_loss(event: Event) -> Event:
    epoch = number(event.payload.metrics.get("epoch")) if isinstance(event.payload, Reported) else None
    if epoch is None:
        return event
    return replace(event, fields={**event.fields, "metrics": {"epoch": epoch, "loss": 1 / epoch}})
