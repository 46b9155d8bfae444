"""A cluster that labctl does not run, by the ledger that its jobs write: followed, and judged afterwards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from lab.api.receipt import ReceiptDocument
from lab.cluster.checkpoints import JobLedger
from lab.cluster.from_ledger import LedgerJobs, LedgerNodes
from lab.errors import RefusedError, UsageError
from lab.evidence.ledger import History
from lab.evidence.receipt import FaultRecord, judge
from lab.evidence.receipt.expected import Expected, Traits
from lab.faults import find_fault
from lab.faults.records import LoggedFault
from lab.flows.recovery.collect_evidence import gather
from lab.flows.recovery.lost import recorded_faults
from lab.flows.recovery.watch import Watch
from lab.host.clock import WALL, Clock
from lab.host.secrets import key_from, read_key
from lab.lab import Lab
from lab.runtime.base import LabView
from lab.runtime.outside import OutsideView
from lab.store import ObjectStore, Store
from lab.store.below import StoreBelow
from lab.topology import LEDGER_PREFIX, REGION, Credentials

LEDGER = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<folder>(/[A-Za-z0-9._-]+)*)/?")
ENDPOINT = re.compile(r"https?://[A-Za-z0-9.-]+(:\d{1,5})?/?")
AWS_FILE = ".aws/credentials"
HOW = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SHARED_CREDENTIALS_FILE, or ~/.aws/credentials"
ADVICE = f"check --storage, --endpoint and the key, which comes from {HOW}"
FAILURE = "failure"
"""Kind of a fault that is on no record: Ray Train noticed it, and why it came is not known."""


def open_outside(view: LabView, store: Store) -> Lab:
    """A cluster as a lab whose jobs and nodes are those of the ledgers in this store."""
    nodes = LedgerNodes()

    def ledger(job: str) -> JobLedger:
        return lab.ledger(job)

    lab = Lab(view, api=nodes, jobs=LedgerJobs(nodes, store, ledger), store=store)
    return lab


def ledger_store(
    ledger: str, endpoint: str, region: str, environ: Mapping[str, str], home: Path | None = None
) -> Store:
    """The place that jobs were told to write to: that of `--storage`, or of their RAYLAB_LEDGER itself.

    The key comes from AWS' variables or files; `home` is the person's folder. Nothing is asked of the server.
    Raises UsageError.
    """
    match = LEDGER.fullmatch(ledger)
    if match is None:
        raise UsageError(f"--storage {ledger!r}: not a bucket", "such as s3://ray or s3://bucket/folder")
    where = endpoint or environ.get("AWS_ENDPOINT_URL", "")
    if where and not ENDPOINT.fullmatch(where):
        raise UsageError(f"--endpoint {where!r}: not an address", "such as http://minio.store:9000")
    key = _key(environ, home or Path.home())
    folder = match["folder"].strip("/")
    if folder == LEDGER_PREFIX or folder.endswith(f"/{LEDGER_PREFIX}"):
        folder = folder.removesuffix(LEDGER_PREFIX).rstrip("/")
    server = where.rstrip("/") or f"https://s3.{region or REGION}.amazonaws.com"
    return StoreBelow(ObjectStore(server, key, region or REGION, match["bucket"], advice=ADVICE), folder)


def _key(environ: Mapping[str, str], home: Path) -> Credentials:
    profile = environ.get("AWS_PROFILE", "") or "default"
    if key := key_from(environ, HOW, profile):
        return key
    if (home / AWS_FILE).is_file():
        return read_key(home / AWS_FILE, HOW, profile)
    raise UsageError("no key of the object store", f"give it by {HOW}")


def judge_from_ledger(
    store: Store, place: str, submission_id: str, *, clock: Clock = WALL
) -> ReceiptDocument:
    """The receipt of a job's newest fault on record; without one, of the last failure that its ledger tells.

    What only a lab could answer is not asked, and the receipt says so. Nothing is written. `place` names the
    store for a person.

    Raises NotFoundError for a job without a ledger, RefusedError for one that met no fault, StoreError.
    """
    lab = open_outside(OutsideView(place), store)
    lab.jobs.get(submission_id)
    watch = Watch(lab, submission_id, clock)
    watch.poll()
    faults = [_record(fault) for fault in recorded_faults(store, submission_id)]
    if not faults:
        faults = [last_failure(watch.history, submission_id)]
    return judge(gather(watch, faults[-1], others=faults[:-1]))


def _record(logged: LoggedFault) -> FaultRecord:
    """The fault on record."""
    kind = find_fault(logged.kind).kind
    return FaultRecord(**vars(logged), expected=kind.expected, traits=kind.traits)


def last_failure(history: History, submission_id: str) -> FaultRecord:
    """The last failure that Ray Train noticed: which node or process was lost is not known."""
    failed = [
        (attempt.failure_detected_at, attempt)
        for run in history.runs
        for attempt in run.attempts
        if attempt.failure_detected_at is not None
    ]
    if not failed:
        raise RefusedError(
            f"job {submission_id} has neither a fault on record nor a failure in its ledger",
            "nothing had to recover: there is nothing to judge",
        )
    at, hit = max(failed, key=lambda pair: pair[0])
    ran_on = " and ".join(dict.fromkeys(hit.services.get(rank, node) for rank, node in hit.nodes.items()))
    return FaultRecord(
        kind=FAILURE,
        target=ran_on or "an unknown node",
        node_id=next(iter(hit.nodes.values()), ""),
        at=at,
        reverted_at=at,
        expected=Expected.RANK_LOST,
        traits=Traits("failed"),
    )
