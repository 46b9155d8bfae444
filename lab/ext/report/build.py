"""Builds the data of a report from evidence. Pure: asks nothing, imports nothing heavy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lab.api.receipt import AttemptDocument, ReceiptDocument
from lab.evidence.ledger import Number, Run, RunAttempt, number
from lab.evidence.receipt.compare import by_epoch, metrics_of
from lab.evidence.receipt.headline import done_twice, headline
from lab.ext.report import labels
from lab.ext.report.model import (
    Bar,
    Down,
    Line,
    Metric,
    Part,
    ReportData,
    ReportedMoment,
    ReportEvidence,
)
from lab.faults.records import LoggedFault
from lab.flows.labels import moment_label
from lab.flows.recovery.lost import lost_without_fault
from lab.services import is_node

FIRST = ("loss", "train_loss", "val_loss", "val_accuracy", "accuracy", "val_acc", "acc")
"""Metrics that are shown before the others, in this order."""

COUNTS = re.compile(r"^(current_)?epoch$|(^|_)(step|steps|iteration|iterations|rank|world_size|bytes)$")
"""Metrics that count something and are no curve worth drawing."""

MAX_METRICS = 8


def build_report(evidence: ReportEvidence) -> ReportData:
    """Put what is known of the subject in order. What is missing is named, and never made up."""
    receipt = evidence.subject.receipt
    run = _run(evidence)
    fault = receipt.fault if receipt else None
    attempts = _attempts(receipt, run, evidence.services)
    starts = [a.started_at for a in attempts if a.started_at is not None]
    origin = fault.at if fault else min(starts, default=0.0)
    down = _down(receipt, origin) if receipt else None
    bars = _bars(receipt, run, attempts, origin)
    services = {*evidence.workers, *(bar.service for bar in bars), *((down.service,) if down else ())}
    lost = _lost(evidence)
    head = headline(receipt) if receipt else _unjudged(evidence, lost)
    words = labels.HEADLINES[head]
    status = (receipt.job.status if receipt else "") or evidence.job.get("status") or ""
    gaps = (*evidence.missing, *((*receipt.problems, *lost) if receipt else ()))
    return ReportData(
        title=words.title,
        verdict=receipt.verdict.value if receipt else "",
        headline=head,
        reason=(receipt.reason if receipt else "") or "; ".join(_known(evidence, lost)) or words.meaning,
        fault=fault,
        job=evidence.subject.job,
        status=status,
        command=evidence.job.get("recipe") or evidence.job.get("entrypoint") or "",
        origin=origin,
        epoch_key=(receipt.epoch_key if receipt else None) or (run.progress_key if run else None) or "epoch",
        moments=_moments(receipt) if receipt else (),
        services=tuple(sorted(services)),
        bars=bars,
        down=down,
        metrics=_metrics(run, evidence),
        fault_epoch=_fault_epoch(run, origin) if fault else None,
        repeated=_repeated(run),
        control_job=evidence.control_job,
        curves=evidence.curves,
        parts=_parts((receipt and receipt.breakdown) or {}),
        attempts=tuple(_shifted(attempt, origin) for attempt in attempts),
        checks=receipt.checks if receipt else (),
        checkpoint=receipt.checkpoint if receipt else None,
        lost=done_twice(receipt) if receipt else (None, "epoch"),
        expected=receipt.expected.text if receipt else "",
        environment=_environment(evidence),
        missing=tuple(_brief(text) for text in gaps),
    )


def _lost(evidence: ReportEvidence) -> tuple[str, ...]:
    """The attempts that no fault on record explains."""
    if evidence.history is None:
        return ()
    receipt = evidence.subject.receipt
    faults = [receipt.fault] if receipt else []
    judged = [LoggedFault(fault.kind, fault.target, fault.at, fault.reverted_at) for fault in faults]
    return lost_without_fault(evidence.history, (*evidence.faults, *judged))


def _unjudged(evidence: ReportEvidence, lost: tuple[str, ...]) -> str:
    """The headline of a job without a receipt."""
    if evidence.faults:
        return "not judged"
    return "attempt lost" if lost else "undisturbed"


def _known(evidence: ReportEvidence, lost: tuple[str, ...]) -> tuple[str, ...]:
    """Faults and losses that are known of a job without a receipt."""
    faults = (f"{fault.kind} of {fault.target} is on record" for fault in evidence.faults)
    return (*faults, *lost)


def _brief(text: str) -> str:
    """The first and the last line of a text of many lines, such as one with a traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return text if len(lines) <= 2 else f"{lines[0]} … {lines[-1]}"


def _run(evidence: ReportEvidence) -> Run | None:
    """The run that the receipt is about, else the job's last."""
    runs = evidence.history.runs if evidence.history else ()
    name = evidence.subject.receipt and evidence.subject.receipt.run
    return next((run for run in reversed(runs) if run.name == name), runs[-1] if runs else None)


def _attempts(
    receipt: ReceiptDocument | None, run: Run | None, services: Mapping[str, str]
) -> tuple[AttemptDocument, ...]:
    if receipt and receipt.attempts:
        return receipt.attempts
    return tuple(
        AttemptDocument(
            attempt=a.number,
            nodes=tuple(services.get(a.nodes[rank], a.nodes[rank][:8]) for rank in sorted(a.nodes)),
            first_epoch=a.first.progress if a.first else None,
            last_epoch=a.furthest,
            started_at=a.started_at,
            ended_at=a.ended_at or (run.finished_at if run else None),
        )
        for a in (run.attempts if run else ())
    )


def _shifted(attempt: AttemptDocument, origin: float) -> AttemptDocument:
    begin, end = attempt.started_at, attempt.ended_at
    return replace(
        attempt,
        started_at=None if begin is None else begin - origin,
        ended_at=None if end is None else end - origin,
    )


def _down(receipt: ReceiptDocument, origin: float) -> Down | None:
    fault, timeline = receipt.fault, receipt.timeline
    if not is_node(fault.target):
        return None
    reverted, back = fault.reverted_at, timeline.node_rejoined
    end = back if back is not None else None if reverted is None else reverted - origin
    return Down(fault.target, 0.0, end, lost=timeline.node_dead is not None)


def _bars(
    receipt: ReceiptDocument | None, run: Run | None, attempts: Sequence[AttemptDocument], origin: float
) -> tuple[Bar, ...]:
    """A bar for each rank of each attempt. A rank whose node was lost ends with the fault."""
    numbered = {a.number: a for a in run.attempts} if run else {}
    lost = receipt.fault.target if receipt and receipt.timeline.node_dead is not None else ""
    bars = []
    for place, attempt in enumerate(attempts):
        if attempt.started_at is None:
            continue
        begin = attempt.started_at - origin
        known = numbered.get(attempt.attempt)
        following = next((a.started_at for a in attempts[place + 1 :] if a.started_at is not None), None)
        end = _ended(attempt, known, run, following, origin)
        hit = begin <= 0 <= end
        reports = tuple(r.at - origin for r in known.reports) if known else ()
        for rank, service in enumerate(attempt.nodes):
            over = 0.0 if hit and service == lost else end
            bars.append(
                Bar(service, attempt.attempt, rank, begin, max(over, begin), reports if rank == 0 else ())
            )
    return tuple(bars)


def _ended(
    attempt: AttemptDocument,
    known: RunAttempt | None,
    run: Run | None,
    following: float | None,
    origin: float,
) -> float:
    signs: list[float | None] = [attempt.ended_at, following]
    if known is not None:
        signs += [known.failure_detected_at, run.finished_at if run else None]
    ends = [at for at in signs if at is not None]
    last = [r.at for r in known.reports] if known else []
    return (min(ends) if ends else max(last, default=attempt.started_at or origin)) - origin


def _moments(receipt: ReceiptDocument) -> tuple[ReportedMoment, ...]:
    """The moments in order of time; those that did not happen come last."""
    at, reverted = receipt.fault.at, receipt.fault.reverted_at
    times: dict[str, float | None] = {"fault": 0.0, **vars(receipt.timeline)}
    times["reverted"] = None if reverted is None else reverted - at
    order = list(labels.MOMENTS)
    keys = sorted(times, key=lambda key: order.index(key) if key in order else len(order))
    moments = [
        ReportedMoment(key, moment_label(key), times[key], labels.MOMENTS.get(key, "")) for key in keys
    ]
    return tuple(sorted(moments, key=lambda m: (m.seconds is None, m.seconds or 0.0)))


def _parts(breakdown: Mapping[str, float | None]) -> tuple[Part, ...]:
    """The stages of the recovery that are known: stage -> seconds."""
    return tuple(
        Part(key, value, meaning)
        for key, meaning in labels.PARTS.items()
        if (value := breakdown.get(key)) is not None and value >= 0
    )


def _metrics(run: Run | None, evidence: ReportEvidence) -> tuple[Metric, ...]:
    """Every numeric metric, attempt by attempt, those that people look for first."""
    if run is None:
        return ()
    control_runs = evidence.control.runs if evidence.control else ()
    control = by_epoch(control_runs[-1]) if control_runs else {}
    names: dict[str, None] = {}
    for attempt in run.attempts:
        for report in attempt.reports:
            names.update(dict.fromkeys(metrics_of(report)))
    wanted = [name for name in names if name != run.progress_key and not COUNTS.search(name)]
    order = sorted(
        wanted, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), wanted.index(name))
    )
    metrics = []
    for name in order[:MAX_METRICS]:
        lines = [
            Line(attempt.number, points)
            for attempt in run.attempts
            if (points := tuple(_points(attempt, name)))
        ]
        known = tuple((epoch, values[name]) for epoch, values in sorted(control.items()) if name in values)
        if lines:
            metrics.append(Metric(name, tuple(lines), known))
    return tuple(metrics)


def _points(attempt: RunAttempt, name: str) -> Iterable[tuple[Number, float]]:
    for report in attempt.reports:
        values = metrics_of(report)
        if report.progress is not None and name in values:
            yield report.progress, values[name]


def _fault_epoch(run: Run | None, at: float) -> float | None:
    before = [
        float(report.progress)
        for attempt in (run.attempts if run else ())
        for report in attempt.reports
        if report.progress is not None and report.at <= at
    ]
    return before[-1] if before else None


def _repeated(run: Run | None) -> tuple[Number, Number] | None:
    """The first and last epoch that more than one attempt reported."""
    seen: set[Number] = set()
    twice: set[Number] = set()
    for attempt in run.attempts if run else ():
        epochs = {r.progress for r in attempt.reports if r.progress is not None}
        twice |= seen & epochs
        seen |= epochs
    return (min(twice), max(twice)) if twice else None


def _environment(evidence: ReportEvidence) -> tuple[tuple[str, str], ...]:
    machine = dict(evidence.machine)
    rows = [("lab", evidence.lab), ("runtime", evidence.runtime), ("GPUs", evidence.gpus)]
    rows += [(name, str(machine.pop(name, ""))) for name in ("python", "ray", "torch", "pytorch-lightning")]
    cores, memory = number(machine.get("cores")), number(machine.get("memory_bytes"))
    rows.append(("cores of the machine", "" if cores is None else str(cores)))
    rows.append(("memory of the machine", "" if memory is None else f"{memory / 2**30:.1f} GiB"))
    titles = {"python": "Python", "ray": "Ray", "torch": "PyTorch", "pytorch-lightning": "PyTorch Lightning"}
    known = [(titles.get(name, name), value) for name, value in rows if value]
    return (*known, *evidence.settings)
