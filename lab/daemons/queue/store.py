"""State of the controller: one SQLite file that is written in whole transactions, and flushed with each."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kueue.places import Change
from kueue.writing import Object, key_of
from lab.daemons.queue.model import Record, StoredEvent, job_document, read_job
from lab.errors import LabError, StateError
from lab.host.files import make_private, size_of
from lab.host.reading import parse_json

FILE = "queue.sqlite"
VERSION = 2

TABLES = """
CREATE TABLE objects (kind TEXT, namespace TEXT, name TEXT, document TEXT NOT NULL,
    PRIMARY KEY (kind, namespace, name));
CREATE TABLE workloads (key TEXT PRIMARY KEY, document TEXT NOT NULL, job TEXT NOT NULL, phase TEXT NOT NULL,
    attempt INTEGER NOT NULL, created REAL NOT NULL, finished_at REAL);
CREATE TABLE events (number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, event TEXT NOT NULL,
    workload TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL, cluster_queue TEXT NOT NULL,
    flavors TEXT NOT NULL);
CREATE INDEX events_of ON events (workload, number);
CREATE TABLE usage (only INTEGER PRIMARY KEY CHECK (only = 1), document TEXT NOT NULL);
"""


@dataclass
class Batch:
    """All that one transaction writes."""

    objects: Sequence[Object] | None = None
    """All objects, in place of those before; None leaves them."""
    workloads: Sequence[tuple[Record, Object]] = ()
    """Changed rows, each with its Workload."""
    events: Sequence[Change] = ()
    usage: Mapping[str, object] | None = None
    """Usage of LocalQueues over time."""
    forgotten: Sequence[str] = ()
    """Keys of workloads that are dropped, with their events."""


@dataclass(frozen=True)
class Loaded:
    """All that a controller begins with."""

    objects: list[Object] = field(default_factory=list)
    workloads: list[tuple[Record, Object]] = field(default_factory=list)
    """In the order of their creation."""
    usage: Mapping[str, object] | None = None


class DamagedError(StateError):
    """What the file has cannot be read, and never will be."""


class StateStore:
    """The file. Every method is one transaction. Raises StateError when it cannot be read or written."""

    SYNCHRONOUS = "FULL"
    """SQLite's setting: a transaction that was committed survives a loss of power."""

    def __init__(self, folder: Path, *, prepare: bool = True) -> None:
        """Open it, or make it; without `prepare` nothing is read or changed yet. Raises DamagedError too."""
        self.path = make_private(folder) / FILE
        with self._explained():
            self._database = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        if prepare:
            self.prepare()

    def prepare(self) -> None:
        """Look whether the file is whole, and make what it lacks. Raises DamagedError, StateError."""
        journal = self.path.with_name(f"{FILE}-wal")
        if size_of(journal) and not size_of(self.path):
            raise damage(self.path, ValueError("it is empty, and its journal is not"))
        with self._explained():
            (state,) = self._database.execute("PRAGMA quick_check(1)").fetchone()
            if state != "ok":
                raise sqlite3.DatabaseError(" ".join(state.split()))
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute(f"PRAGMA synchronous = {self.SYNCHRONOUS}")
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
            if version == 0:
                with self._transaction():
                    for statement in TABLES.split(";\n"):
                        self._database.execute(statement)
                    self._database.execute(f"PRAGMA user_version = {VERSION}")
            elif version != VERSION:
                raise StateError(
                    f"{self.path} has version {version}, this controller reads version {VERSION}",
                    "use the version of the lab that wrote it, or set the file aside: "
                    f"mv {self.path} {self.path}.old",
                )

    def close(self) -> None:
        self._database.close()

    def load(self) -> Loaded:
        """Everything but events. Raises DamagedError too."""
        execute = self._database.execute
        with self._explained(rows=True):
            objects = execute("SELECT document FROM objects ORDER BY rowid").fetchall()
            columns = "document, key, job, phase, created, finished_at"
            rows = execute(f"SELECT {columns} FROM workloads ORDER BY created, rowid").fetchall()
            usage = execute("SELECT document FROM usage").fetchone()
            return Loaded(
                [parse_json(text) for (text,) in objects],
                [(_record(*row), parse_json(document)) for document, *row in rows],
                parse_json(usage[0]) if usage else None,
            )

    def commit(self, batch: Batch) -> None:
        """Write all of it, or nothing."""
        with self._explained(), self._transaction():
            execute, many = self._database.execute, self._database.executemany
            if batch.objects is not None:
                execute("DELETE FROM objects")
                rows = ((*key_of(document), _json(document)) for document in batch.objects)
                many("INSERT INTO objects VALUES (?, ?, ?, ?)", rows)
            many(
                "INSERT INTO workloads VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                "document = excluded.document, job = excluded.job, phase = excluded.phase, "
                "attempt = excluded.attempt, finished_at = excluded.finished_at",
                (_workload_row(record, document) for record, document in batch.workloads),
            )
            many(
                "INSERT INTO events (at, event, workload, reason, message, cluster_queue, flavors) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                map(_event_row, batch.events),
            )
            for table, column in (("workloads", "key"), ("events", "workload")):
                many(f"DELETE FROM {table} WHERE {column} = ?", ((key,) for key in batch.forgotten))
            if batch.usage is not None:
                execute("INSERT OR REPLACE INTO usage VALUES (1, ?)", (_json(batch.usage),))

    def trim(self, most: int) -> None:
        """Keep the newest `most` events of each workload, and of all that belongs to none."""
        with self._explained(), self._transaction():
            self._database.execute(
                "DELETE FROM events WHERE number IN (SELECT number FROM (SELECT number, row_number() OVER "
                "(PARTITION BY workload ORDER BY number DESC) AS place FROM events) WHERE place > ?)",
                (most,),
            )

    def events(self, since: int = 0, limit: int = 1000, workload: str = "") -> list[StoredEvent]:
        """Events with a number above `since`, oldest first; with `workload` those of one."""
        with self._explained():
            rows = self._database.execute(
                "SELECT number, at, event, workload, reason, message, cluster_queue, flavors FROM events "
                "WHERE number > ? AND (? = '' OR workload = ?) ORDER BY number LIMIT ?",
                (since, workload, workload, limit),
            ).fetchall()
        return [
            StoredEvent(row[0], Change(*row[1:7], flavors=parse_json(row[7])))  # type: ignore[misc]
            for row in rows
        ]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def _explained(self, *, rows: bool = False) -> Iterator[None]:
        """Turn SQLite's errors into DamagedError where they show a damaged file, with `rows` its content too.

        Raises StateError for everything else, such as a full disk.
        """
        try:
            yield
        except LabError as error:  # a document of another shape
            if rows:
                raise damage(self.path, error) from error
            raise
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            damaged = rows
            if isinstance(error, sqlite3.Error):
                damaged = type(error) is sqlite3.DatabaseError or str(error).startswith("no such ")
            if damaged:
                raise damage(self.path, error) from error
            raise StateError(
                f"the queues' state in {self.path} cannot be read or written: {error}",
                "free some space, or check the owner of that folder",
            ) from error


def damage(path: Path, error: Exception) -> DamagedError:
    """The error for a file whose content cannot be read."""
    return DamagedError(
        f"the queues' state in {path} is damaged: {error}",
        "`labctl up` sets that file aside and begins without queues; stored objects stay",
    )


def _record(key: str, text: str, phase: str, created: float, finished_at: float | None) -> Record:
    job, stop = read_job(parse_json(text), key)
    return Record(key, job, phase, created, finished_at, stop)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _workload_row(record: Record, document: Object) -> tuple[object, ...]:
    return (
        record.key,
        _json(document),
        _json(job_document(record)),
        record.phase,
        len(record.job.attempts),
        record.created,
        record.finished_at,
    )


def _event_row(change: Change) -> tuple[object, ...]:
    texts = change.event, change.workload, change.reason, change.message, change.cluster_queue
    return (change.at, *texts, _json(change.flavors))
