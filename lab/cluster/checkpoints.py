"""Reads what training left in the object store: checkpoints, and the ledgers that tell of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lab.api.ledger import CheckpointSaved
from lab.evidence.ledger import (
    EPOCH_KEYS,
    Event,
    History,
    Number,
    manifest_sha256,
    number,
    of_kind,
    parse_events,
)  # fmt: skip
from lab.store import MissingObjectError, Store, StoredObject
from lab.topology import LEDGER_PREFIX

CHECKPOINT = re.compile(r"(?P<folder>.+?)/(?P<name>checkpoint_[^/]+)/(?P<file>.+)")


@dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint as it lies in the store. Fields that come from a ledger are None without one.

    One that was committed elsewhere, as in a folder of its nodes, is told by its ledger alone: whether it is
    still there is not known.
    """

    uri: str
    run: str
    name: str
    files: tuple[str, ...]
    """Paths relative to the checkpoint."""
    size: int
    """Bytes of all files."""
    modified: float
    """Time at which its newest file was stored, in seconds since the epoch; elsewhere, of its commit."""
    epoch: Number | None = None
    sha256: str | None = None
    """SHA-256 of the files before the upload (`lab.evidence.ledger.manifest_sha256`)."""
    job: str | None = None
    in_store: bool = True
    """False for one that was committed elsewhere."""


class JobLedger:
    """Follows one job's ledger, which grows by whole objects that never change: each is read once."""

    def __init__(self, store: Store, job: str) -> None:
        """Does not ask the store yet. A job without a ledger is one without events."""
        self.events: list[Event] = []
        self.history = History.of(())
        self._store, self._prefix = store, f"{LEDGER_PREFIX}/{job}/"
        self._read: set[str] = set()
        self._lines: list[bytes] = []
        """Lines that were read and not taken up yet."""
        self._seen: set[bytes] = set()
        """SHA-256 of every line so far."""

    def poll(self) -> History:
        """Return the history, with what is new. Raises StoreError; what was known before stays."""
        for entry in self._store.list(self._prefix):
            if entry.key not in self._read and entry.key.endswith(".jsonl"):
                self._lines.extend(self._store.get(entry.key).splitlines())
                self._read.add(entry.key)
        # A write whose answer was lost is repeated under another name: the copy may come with a later poll.
        new = {hashlib.sha256(line.strip()).digest(): line for line in self._lines}
        events = parse_events(line for digest, line in new.items() if digest not in self._seen)
        self._lines = []
        self._seen.update(new)
        if events:
            self.events.extend(events)
            self.history = History.of(self.events)
        return self.history


def ledgers(store: Store) -> tuple[str, ...]:
    """Return the ids of the jobs that have a ledger. Raises StoreError."""
    folders = store.list(f"{LEDGER_PREFIX}/", recursive=False)
    return tuple(entry.key.split("/")[-2] for entry in folders if _is_folder_below(entry.key, LEDGER_PREFIX))


def list_checkpoints(store: Store, job: str | None = None) -> tuple[CheckpointInfo, ...]:
    """Return the checkpoints of one job, or of all (also those that no ledger knows), by run and age.

    Raises StoreError.
    """
    known: dict[str, _Known] = {}
    for name in ledgers(store) if job is None else (job,):
        known.update(_known(store, name))
    groups: dict[str, list[tuple[re.Match[str], StoredObject]]] = {}
    for entry in _training_objects(store) if job is None else _objects_beside(store, known):
        match = CHECKPOINT.fullmatch(entry.key)
        if match is not None and not entry.key.endswith("/"):
            uri = f"s3://{store.bucket}/{match['folder']}/{match['name']}"
            groups.setdefault(uri, []).append((match, entry))
    checkpoints = []
    for uri, parts in groups.items():
        recorded = known.get(uri, _Known())
        if job is not None and recorded.job != job:
            continue
        match = parts[0][0]
        checkpoints.append(
            CheckpointInfo(
                uri=uri,
                run=recorded.run or match["folder"].rsplit("/", 1)[-1],
                name=match["name"],
                files=tuple(sorted(m["file"] for m, _ in parts)),
                size=sum(entry.size for _, entry in parts),
                modified=max(entry.modified for _, entry in parts),
                epoch=recorded.epoch,
                sha256=recorded.sha256,
                job=recorded.job,
            )
        )
    begin = f"s3://{store.bucket}/"
    checkpoints += [
        CheckpointInfo(
            uri=uri,
            run=recorded.run or "",
            name=uri.rstrip("/").rsplit("/", 1)[-1],
            files=tuple(sorted(recorded.sizes)),
            size=sum(recorded.sizes.values()),
            modified=recorded.committed_at,
            epoch=recorded.epoch,
            sha256=recorded.sha256,
            job=recorded.job,
            in_store=False,
        )
        for uri, recorded in known.items()
        if recorded.committed_at is not None and not uri.startswith(begin)
    ]
    return tuple(sorted(checkpoints, key=lambda c: (c.run, c.modified, c.name)))


def stored_manifest(store: Store, uri: str) -> dict[str, str]:
    """Download the checkpoint at `uri`, and return path -> SHA-256 of its files.

    Empty when it is not there (any more), or not in this object store. Raises StoreError.
    """
    match = re.fullmatch(r"s3://([^/]+)/(.+?)/*", uri)
    if match is None:
        return {}
    holder, prefix = store.in_bucket(match[1]), f"{match[2]}/"
    files = {}
    for entry in holder.list(prefix):
        if entry.key.endswith("/"):
            continue
        digest = hashlib.sha256()
        try:
            for piece in holder.read(entry.key):
                digest.update(piece)
        except MissingObjectError:  # it is being deleted: then there is no checkpoint any more
            return {}
        files[entry.key[len(prefix) :]] = digest.hexdigest()
    return files


@dataclass(frozen=True)
class _Known:
    """A checkpoint as the ledger knows it."""

    job: str | None = None
    run: str | None = None
    epoch: Number | None = None
    sha256: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Path -> bytes of each file, as it was saved."""
    committed_at: float | None = None
    """None for one that was never committed."""


def _known(store: Store, job: str) -> dict[str, _Known]:
    """Return what the job's ledger knows of checkpoints by URI, those never committed included."""
    ledger = JobLedger(store, job)
    history = ledger.poll()
    known: dict[str, _Known] = {}
    files: dict[str, dict[str, str]] = {}
    sizes: dict[str, dict[str, int]] = {}
    for event, said in of_kind(ledger.events, CheckpointSaved):
        uri = said.uri
        if uri is None:
            continue
        for path, file in (said.files or {}).items():
            if file.sha256 is not None:
                files.setdefault(uri, {})[path] = file.sha256
            if file.size is not None:
                sizes.setdefault(uri, {})[path] = int(file.size)
        epochs = (number(said.metrics.get(key)) for key in EPOCH_KEYS)
        epoch = next((value for value in epochs if value is not None), None)
        sha256 = manifest_sha256(files[uri]) if uri in files else None
        known[uri] = _Known(event.job, event.run or None, epoch, sha256)
    for run in history.runs:
        for checkpoint in run.checkpoints:
            epoch = checkpoint.progress if run.progress_key in EPOCH_KEYS else None
            known[checkpoint.uri] = _Known(
                run.job, run.name, epoch, checkpoint.sha256(), sizes.get(checkpoint.uri, {}), checkpoint.at
            )
    return known


def _objects_beside(store: Store, uris: Iterable[str]) -> Iterator[StoredObject]:
    """Yield what the folders of these checkpoints hold: a person of a class may list no more than her own."""
    begin = f"s3://{store.bucket}/"
    keys = (uri.removeprefix(begin).rstrip("/") for uri in uris if uri.startswith(begin))
    for folder in sorted({key.rpartition("/")[0] for key in keys} - {""}):
        yield from store.list(f"{folder}/")


def _training_objects(store: Store) -> Iterable[StoredObject]:
    """Yield every object except labctl's own."""
    own = f"{LEDGER_PREFIX.split('/', 1)[0]}/"
    for entry in store.list(recursive=False):
        if entry.key.endswith("/") and entry.key != own:
            yield from store.list(entry.key)


def _is_folder_below(key: str, folder: str) -> bool:
    return key.endswith("/") and key != f"{folder}/"
