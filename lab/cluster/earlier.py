"""Jobs of an earlier cluster: Ray forgets its jobs with its head; their ledgers in the store tell of them.

Only what trained with Ray Train has a ledger. Notebooks and other drivers are left out: their ids begin anew
with every cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from lab.api.ledger import RunFinished
from lab.cluster.checkpoints import ledgers
from lab.cluster.jobs import EARLIER, INTERACTIVE, Job
from lab.evidence.ledger import Event, of_kind, parse_events
from lab.store import Store, StoredObject
from lab.topology import LEDGER_PREFIX

MOST = 20
"""Limit of jobs that are listed, the newest: of each a part of its ledger is read."""

CONTROLLER = "controller-"
"""Prefix of the objects that a run's controller wrote (raylab_ledger.train)."""


def earlier_jobs(store: Store, known: Collection[str]) -> tuple[Job, ...]:
    """The jobs that Ray does not know (`known` are the ids of those that it does), the newest first.

    Ledgers of jobs that it knows are not listed, which may be thousands of objects. Raises StoreError.
    """
    unknown = {job for job in ledgers(store) if job not in known and not job.startswith(INTERACTIVE)}
    folders = (
        [f"{LEDGER_PREFIX}/{job}/" for job in unknown] if len(unknown) <= MOST else [f"{LEDGER_PREFIX}/"]
    )
    objects: dict[str, list[StoredObject]] = {}
    for entry in chain.from_iterable(map(store.list, folders)):
        job = entry.key.removeprefix(f"{LEDGER_PREFIX}/").partition("/")[0]
        if job in unknown and entry.key.endswith(".jsonl"):
            objects.setdefault(job, []).append(entry)
    newest = sorted(objects.items(), key=lambda item: min(e.modified for e in item[1]), reverse=True)
    return tuple(_job(store, job, entries) for job, entries in newest[:MOST])


def earlier_job(store: Store, job: str) -> Job | None:
    """A job that Ray does not know; None where it has no ledger. Raises StoreError."""
    entries = [e for e in store.list(f"{LEDGER_PREFIX}/{job}/") if e.key.endswith(".jsonl")]
    return _job(store, job, entries) if entries and not job.startswith(INTERACTIVE) else None


def _job(store: Store, job: str, entries: Sequence[StoredObject]) -> Job:
    """The job by its ledger: the end of a run is the last that its controller writes."""
    last: dict[str, str] = {}
    for key in sorted(entry.key for entry in entries):
        stream, _, _ = key.rpartition("-")
        if stream.rpartition("/")[2].startswith(CONTROLLER):
            last[stream] = key
    events = [e for key in last.values() for e in parse_events(store.get(key).splitlines())]
    ends = list(of_kind(events, RunFinished))
    whole = bool(ends) and len(ends) == len(last)
    return Job(
        submission_id=job,
        status=EARLIER,
        message=_ending(ends) if whole else "its end is not recorded: the ledger stops before it",
        started_at=min(entry.modified for entry in entries),
        ended_at=max(event.at for event, _ in ends) if whole else None,
    )


def _ending(ends: Sequence[tuple[Event, RunFinished]]) -> str:
    errors = [said.error for _, said in ends if said.error]
    return f"its training failed: {errors[-1]}" if errors else "its training finished"
