"""Gathers the evidence of a lesson's checks from Ray's Jobs API, the ledgers, the nodes and the store."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lab.api.base import parse
from lab.api.receipt import ReceiptDocument
from lab.cluster.allocation.snapshot import SUPERVISOR
from lab.cluster.api import RayApi, Row
from lab.cluster.jobs import Job, Jobs
from lab.errors import LabError, NotFoundError, StoreError, UnsupportedError
from lab.evidence.ledger import History, number
from lab.ext.course.batch_documents import BatchEvidence
from lab.ext.course.inference import receipt as inference
from lab.ext.course.lessons.model import LESSONS_PREFIX, Evidence, Lesson, job_prefix
from lab.host.reading import parse_json
from lab.host.secrets import key_from
from lab.people.rights import home
from lab.store import MissingObjectError, ObjectStore, Store
from lab.store.below import StoreBelow
from lab.topology import RECEIPTS_PREFIX, REGION

if TYPE_CHECKING:
    from lab.lab import Lab

DRIVER = "driver"
"""Name that the queues give to the entrypoint of a job."""

ANSWERS = "answers"
"""Name of the record with a student's answers."""

EARLY_SECONDS = 5.0
"""Time by which a job may start before its lesson: two clocks, and the cell that begins it."""


def with_own_store(lab: Lab, environ: Mapping[str, str] = os.environ) -> Lab:
    """The lab itself; of a class the same one with the store that a person's own key reaches.

    Raises UnsupportedError where the environment has no such key: it is in her JupyterLab.
    """
    from lab.lab import Lab as OpenLab
    from lab.runtime.select import CLASS

    if lab.view.kind != CLASS:
        return lab
    endpoint, key = environ.get("AWS_ENDPOINT_URL", ""), key_from(environ)
    if not endpoint or key is None or not environ.get("RAYLAB_STORAGE"):
        raise UnsupportedError("lessons need your key of the object store", "do them in your JupyterLab")
    return OpenLab(lab.view, store=ObjectStore(endpoint, key, REGION))


def with_queued_jobs(lab: Lab) -> Lab:
    """The lab itself; of a class the same one with jobs as a notebook has them: they may wait in a queue."""
    from lab.lab import Lab as OpenLab
    from lab.runtime.select import CLASS

    if lab.view.kind != CLASS:
        return lab
    ends = lab.endpoints()
    api = RayApi(ends.dashboard, ends.ray_token, gateway=True, attempts=False)
    return OpenLab(lab.view, store=lab.store, jobs=Jobs(api))


def store_of(lab: Lab) -> Store:
    """The store with the lessons: in a class each person has a folder of her own."""
    person = lab.view.person
    return StoreBelow(lab.store, home(person)) if person else lab.store


def folder(lesson: int) -> str:
    """The folder of a lesson in the bucket."""
    return f"{LESSONS_PREFIX}/{lesson:02d}"


def records_key(lesson: int) -> str:
    """Key of the object with the begin of a lesson and its records."""
    return f"{folder(lesson)}/session.json"


def read_records(store: Store, lesson: int) -> tuple[float | None, dict[str, object]]:
    """The begin of a lesson (seconds since the epoch) and its records. Raises StoreError."""
    try:
        document = parse_json(store.get(records_key(lesson)))
        records = document["records"]
        return number(document["began_at"]), dict(records)
    except (MissingObjectError, ValueError, KeyError, TypeError):
        return None, {}


def read_answers(store: Store, lesson: int) -> dict[str, str]:
    """The texts that a student answered, by the number of the question. Raises StoreError."""
    _, records = read_records(store, lesson)
    given = records.get(ANSWERS)
    kept = given if isinstance(given, Mapping) else {}
    return {str(question): text for question, text in sorted(kept.items()) if isinstance(text, str)}


def write_records(store: Store, lesson: int, began_at: float, records: Mapping[str, object]) -> None:
    """Keep both. Raises StoreError; TypeError, ValueError for what is no JSON."""
    document = {"lesson": lesson, "began_at": began_at, "records": dict(records)}
    store.put(records_key(lesson), json.dumps(document, allow_nan=False).encode())


def gather(lab: Lab, lesson: Lesson) -> Evidence:
    """Gather the evidence of the checks of `lesson`. Raises LabDownError, ClusterError, StoreError."""
    store, person = store_of(lab), lab.view.person
    began_at, records = read_records(store, lesson.number)
    answers = read_answers(store, lesson.number)
    begin = job_prefix(lesson.number, person)
    own, every = home(person) if person else "", lab.jobs.list()
    queued = with_queued_jobs(lab).jobs.list() if person else ()
    ids = {job.submission_id for job in every}  # others were stopped before they left their queue
    every += tuple(job for job in queued if job.submission_id not in ids)
    jobs = tuple(job for job in every if _of_lesson(job, begin, began_at))
    histories = {job.submission_id: lab.history(job.submission_id) for job in jobs}
    return Evidence(
        lesson=lesson.number,
        began_at=began_at,
        jobs=jobs,
        queued=tuple(job for job in queued if _of_lesson(job, begin, began_at)),
        histories=histories,
        logs={job.submission_id: _log(lab, job.submission_id) for job in jobs},
        demands=_demands(lab, jobs),
        records={name: value for name, value in records.items() if name != ANSWERS},
        answers=answers,
        nodes=lab.api.nodes(),
        receipts=_receipts(lab.store, jobs),
        batches={} if person else _batches(lab.store, jobs),
        store_objects=_objects(lab.store, f"{own}{folder(lesson.number)}/", histories),
        status=lab.status(),
        ray_version=str(lab.api.get("/api/version").get("ray_version") or ""),
        running=tuple(job.submission_id for job in every if not job.final),
        person=person,
    )


def _of_lesson(job: Job, begin: str, began_at: float | None) -> bool:
    if not job.submission_id.startswith(begin):
        return False
    return began_at is None or job.started_at is None or job.started_at >= began_at - EARLY_SECONDS


def _log(lab: Lab, job: str) -> str:
    try:
        return lab.jobs.logs(job)
    except LabError:
        return ""


def _demands(lab: Lab, jobs: tuple[Job, ...]) -> dict[str, Mapping[str, float]]:
    """Job id -> what its entrypoint asked of one node: resource -> amount. Raises ClusterError.

    Ray keeps it with the actor that runs the entrypoint, also when that has ended. A student of a class may
    not read actors; there the queue says what was asked for.
    """
    if not jobs:
        return {}
    if lab.view.person:
        return {job.submission_id: queued_demand(lab, job.submission_id) for job in jobs}
    wanted = {f"{SUPERVISOR}{job.submission_id}": job.submission_id for job in jobs}

    def demand(row: Row) -> tuple[str, Mapping[str, float]]:
        asked = {str(k): float(v) for k, v in (row.get("required_resources") or {}).items()}
        return wanted.get(row.get("name") or "", ""), asked

    return {job: asked for job, asked in lab.api.rows("actors", demand) if job}


def queued_demand(lab: Lab, job: str) -> dict[str, float]:
    """Demand of the entrypoint of a queued job; nothing where only its workers ask. Raises LabDownError."""
    try:
        pods = lab.queues.describe(job).pod_sets
    except NotFoundError:
        return {}
    asked = next((pod.requests for pod in pods if pod.name == DRIVER), {})
    return {{"cpu": "CPU", "memory": "memory"}.get(name, "GPU"): float(n) for name, n in asked.items()}


def _receipts(store: Store, jobs: tuple[Job, ...]) -> tuple[ReceiptDocument, ...]:
    receipts = []
    for job in jobs:
        for entry in store.list(f"{RECEIPTS_PREFIX}/{job.submission_id}-"):
            if re.fullmatch(r"-\d+\.json", entry.key[len(f"{RECEIPTS_PREFIX}/{job.submission_id}") :]):
                receipts.append((entry.modified, entry.key))
    return tuple(
        parse(ReceiptDocument, parse_json(store.get(key)), key, StoreError) for _, key in sorted(receipts)
    )


def _batches(store: Store, jobs: tuple[Job, ...]) -> dict[str, BatchEvidence]:
    batches = {}
    for job in jobs:
        with contextlib.suppress(NotFoundError):
            batches[job.submission_id] = inference.read(store, job.submission_id)
    return batches


def _objects(store: Store, own: str, histories: Mapping[str, History]) -> tuple[str, ...]:
    begin = f"s3://{store.bucket}/"
    folders = {own}
    for history in histories.values():
        for run in history.runs:
            uris = (checkpoint.uri for checkpoint in run.checkpoints if checkpoint.uri.startswith(begin))
            folders |= {f"{uri[len(begin) :].rstrip('/').rpartition('/')[0]}/" for uri in uris}
    folders.discard("/")
    keys = {entry.key for place in folders for entry in store.list(place) if not entry.key.endswith("/")}
    return tuple(sorted(keys))
