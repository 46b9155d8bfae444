"""Collects the evidence on a fault, and keeps its receipt in the object store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from lab.api.base import plain
from lab.api.receipt import ReceiptDocument
from lab.errors import LabError
from lab.evidence.ledger import CommittedCheckpoint, Files, History
from lab.evidence.receipt import Evidence, FaultRecord, NodeRecord, Preemption, Steering
from lab.evidence.receipt.model import Source
from lab.flows.recovery.resubmit import joined
from lab.flows.recovery.watch import Watch
from lab.lab import Lab
from lab.store.base import Store
from lab.topology import RECEIPTS_PREFIX, ServiceStatus

MOST_EARLIER = 50
"""Jobs whose ledgers are looked through for a checkpoint that an earlier one has made, the newest first."""


def receipt_name(receipt: ReceiptDocument) -> str:
    """The receipt's name in the store."""
    return f"{RECEIPTS_PREFIX}/{receipt.job.submission_id}-{int(receipt.fault.at)}.json"


def gather(
    watch: Watch,
    record: FaultRecord,
    problems: Sequence[str] = (),
    *,
    others: Sequence[FaultRecord] = (),
    read: dict[str, Files] | None = None,
    later: Sequence[Watch] = (),
    preemption: Preemption | None = None,
    health: Steering | None = None,
    control: History | None = None,
) -> Evidence:
    """The evidence on a fault that a watched job went through; what cannot be learned is a problem of it.

    `others` are further faults of that job. `read` holds the checkpoints that were just read, and takes up
    what is read now; see `_stored`. `later` are the watches on the jobs that went on in place of the watched
    one, one after the other, `preemption` and `health` are what the queues recorded, and `control` the
    history of the same job undisturbed.
    """
    lab, last = watch.lab, later[-1] if later else watch
    events = joined(watch, later)
    all_problems = [*last.problems, *problems]
    history = History.of(events) if later else watch.history
    stored = _stored(lab.store, history, record, all_problems, {} if read is None else read)
    services: tuple[ServiceStatus, ...] = ()
    not_asked = lab.view.not_asked
    try:
        services = lab.status().services
    except LabError as error:
        all_problems.append(f"the state of the services is not known: {error.message}")
    job = last.job
    why = lab.why_failed(job) if job and job.status == "FAILED" else None
    return Evidence(
        submission_id=watch.submission_id,
        job_status=job.status if job else "",
        job_message="\n".join(filter(None, (job.message if job else "", why.title if why else ""))),
        fault=record,
        events=events,
        nodes=tuple(
            NodeRecord(n.service, n.node_id, None)
            if Source.NODES in not_asked
            else NodeRecord(n.service, n.node_id, n.alive, n.started_at, n.ended_at, n.reason)
            for n in last.nodes
        ),
        stored=stored,
        services=services,
        problems=tuple(all_problems),
        resubmitted_as=last.submission_id if later else "",
        preemption=preemption,
        health=health,
        others=tuple(others),
        control=control,
        earlier=_earlier(lab, history, all_problems),
        not_asked=not_asked,
    )


def _earlier(lab: Lab, history: History, problems: list[str]) -> tuple[CommittedCheckpoint, ...]:
    """Return the checkpoints of earlier jobs that Ray gave to runs of this one, as those jobs' ledgers
    know them."""
    from lab.cluster.checkpoints import ledgers

    given = {r.uri for run in history.runs for attempt in run.attempts for r in attempt.requests if r.uri}
    left = given - {c.uri for run in history.runs for c in run.checkpoints}
    mine = {run.job for run in history.runs}
    checkpoints: list[CommittedCheckpoint] = []
    try:
        jobs = [job for job in ledgers(lab.store) if job not in mine] if left else []
        for job in jobs[-MOST_EARLIER:][::-1]:
            if not left:
                break
            made = [c for run in lab.history(job).runs for c in run.checkpoints if c.uri in left]
            checkpoints += [replace(c, attempt=0, job=job) for c in made]
            left -= {c.uri for c in made}
    except LabError as error:
        problems.append(f"the job that made {sorted(left)[0]} is not known: {error.message}")
    return tuple(checkpoints)


def keep(store: Store, receipt: ReceiptDocument) -> str:
    """Keep a receipt in the object store; returns why it could not be kept, or nothing."""
    try:
        store.put(receipt_name(receipt), json.dumps(plain(receipt), indent=1).encode())
    except LabError as error:
        return f"the receipt could not be kept in the object store: {error.message}"
    return ""


def _judged_by(history: History, record: FaultRecord) -> tuple[str, ...]:
    """URIs of checkpoints that a receipt is judged by: those loaded, and those committed before the fault."""
    runs = history.runs
    uris = [load.uri for run in runs for attempt in run.attempts for load in attempt.loads]
    uris += [c.uri for run in runs for c in run.checkpoints if c.at <= record.at]
    return tuple(dict.fromkeys(uris))


def _stored(
    store: Store, history: History, record: FaultRecord, problems: list[str], read: dict[str, Files]
) -> dict[str, Files]:
    """Files in the object store now (URI -> path -> SHA-256) of checkpoints that the receipt is judged by.

    `read` holds earlier reads.
    """
    from lab.cluster.checkpoints import stored_manifest

    uris = _judged_by(history, record)
    for uri in uris:
        if uri in read:
            continue
        try:
            read[uri] = stored_manifest(store, uri)
        except LabError as error:
            problems.append(f"{uri} could not be read back: {error.message}")
    return {uri: read[uri] for uri in uris if read.get(uri)}
