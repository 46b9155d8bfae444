"""Writes the ledger: JSON lines in the object store. A store that fails never breaks the training.

One event is one JSON object on one line. Object stores cannot append, so every write makes a new object
`<ledger>/<job>/<stream>-<number>.jsonl`; a stream is one process. Readers list the prefix and merge. Events
of a stream are counted (`n`, from 1), so that a reader sees when some are missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCHEMA = "ledger/1"
LEDGER_VARIABLE = "RAYLAB_LEDGER"
"""Environment variable with the URI under which ledgers are kept; unset means that none is kept."""

MAX_DEPTH = 12
"""Levels of nested values that an event keeps; a deeper one becomes text."""

MAX_BUFFERED_EVENTS = 10_000
"""Events kept in memory while the object store does not answer; beyond it the oldest are dropped."""

RETRY_SECONDS = 1.0

BURST, OBJECTS_A_SECOND = 100, 1.0
"""Objects that a process may make at any pace, and how many it earns. Once they are used up, reports without
a checkpoint wait for the next one: a script that reports each of fifty steps a second would make as many."""

FLUSH: dict[str, Any] = {}
"""In the queue: somebody waits for what stands before it."""

logger = logging.getLogger("raylab.ledger")

Write = Callable[[str, bytes], None]


def filesystem_of(uri: str) -> tuple[Any, str]:
    """The filesystem behind a URI, and the path on it. In S3 a small file is stored by one request.

    Without the option Arrow begins an upload in parts for every file: three requests for each.
    """
    from pyarrow import fs

    if uri.startswith("s3://"):
        uri += f"{'&' if '?' in uri else '?'}allow_delayed_open=true"
    filesystem: tuple[Any, str] = fs.FileSystem.from_uri(uri)
    return filesystem


def pyarrow_writer(uri: str) -> Write:
    """A function that writes one object below `uri`, through the same client that Ray Train uses."""
    filesystem, root = filesystem_of(uri)

    def write(name: str, data: bytes) -> None:
        path = f"{root}/{name}"
        if filesystem.type_name == "local":
            filesystem.create_dir(path.rsplit("/", 1)[0])
        with filesystem.open_output_stream(path) as stream:
            stream.write(data)

    return write


def plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """`value` as something JSON can hold: numbers and strings stay, the rest a short text. Never raises."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    try:
        if depth > 0 and isinstance(value, dict):
            return {str(k): plain(v, depth - 1) for k, v in value.items()}
        if depth > 0 and isinstance(value, (list, tuple)):
            return [plain(v, depth - 1) for v in value]
        if depth > 0 and callable(getattr(value, "item", None)):
            with contextlib.suppress(Exception):
                return plain(value.item(), depth - 1)  # scalars of numpy and torch; arrays raise
        return repr(value)[:200]
    except Exception as error:  # whatever a user's own class raises
        return f"<{type(value).__name__}: {type(error).__name__}>"


def manifest(folder: str | os.PathLike[str]) -> dict[str, dict[str, Any]] | None:
    """Relative path -> size in bytes and SHA-256, for every file below `folder`; None, with a warning, when
    something cannot be read."""
    files, root = {}, Path(folder)
    try:
        for path in sorted(p for p in root.rglob("*") if p.is_file()):
            digest = hashlib.sha256()
            with path.open("rb") as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
            name, size = path.relative_to(root).as_posix(), path.stat().st_size
            files[name] = {"size": size, "sha256": digest.hexdigest()}
    except OSError as error:
        logger.warning("raylab: %s cannot be hashed for the ledger: %s", folder, error)
        return None
    return files


def can_wait(entry: dict[str, Any]) -> bool:
    """Tell whether an event may be stored a second later: no checkpoint, attempt or failure depends on it."""
    return entry.get("event") == "report" and entry.get("checkpoint") is None


class Recorder:
    """Records the events of one process. Thread-safe; no method raises because of the store."""

    def __init__(
        self,
        write: Write,
        prefix: str,
        common: dict[str, Any],
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`prefix` is the object name up to the running number; `common` goes into every event."""
        self._write, self._prefix = write, prefix
        self._common = {"stream": prefix.rpartition("/")[2], **common}
        self._clock, self._sleep = clock, sleep
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue()
        self._idle = threading.Condition()
        self._pending = self._recorded = 0
        self._number = 0
        self._earned, self._earned_at = float(BURST), clock()
        self._warned = False
        threading.Thread(target=self._run, name="raylab-ledger", daemon=True).start()

    def record(self, event: str, **fields: Any) -> None:
        """Queue one event; its time is taken now (seconds since the epoch)."""
        entry = {"schema": SCHEMA, "event": event, "at": self._clock(), **self._common, **fields}
        entry = {k: plain(v) for k, v in entry.items()}
        with self._idle:
            self._pending += 1
            self._recorded += 1
            self._queue.put({**entry, "n": self._recorded})

    def flush(self, timeout: float) -> bool:
        """Wait until what was recorded so far is stored; False when `timeout` seconds were not enough."""
        with self._idle:
            if self._pending:
                self._queue.put(FLUSH)
            return self._idle.wait_for(lambda: self._pending == 0, timeout)

    def _run(self) -> None:
        buffered: list[dict[str, Any]] = []
        while True:
            buffered = self._gathered(buffered)
            if not buffered:
                continue
            dropped = len(buffered) - MAX_BUFFERED_EVENTS
            if dropped > 0:
                del buffered[:dropped]
                self._settle(dropped)
            # Every try has a name of its own: a reader that has seen a name does not look at it again.
            name = f"{self._prefix}-{self._number:06d}.jsonl"
            self._number += 1
            lines = "".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in buffered)
            try:
                self._write(name, lines.encode())
            except Exception as error:  # whatever the store's client raises: training must go on
                self._warn(error)
                self._sleep(RETRY_SECONDS)
                continue
            self._settle(len(buffered))
            buffered = []

    def _gathered(self, buffered: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """These events, at least one, with what is queued; reports alone wait until an object is earned."""
        entries = buffered or [self._queue.get()]
        waits, pause = all(map(can_wait, entries)), self._pause()
        end = self._clock() + pause
        while True:
            seconds = min(pause, end - self._clock()) if waits else 0.0  # the clock may be set back
            try:
                entry = self._queue.get(timeout=seconds) if seconds > 0 else self._queue.get_nowait()
            except queue.Empty:
                return [entry for entry in entries if entry is not FLUSH]
            entries.append(entry)
            waits = waits and can_wait(entry)

    def _pause(self) -> float:
        """Spend an object; returns the seconds until it is earned."""
        now = self._clock()
        passed, self._earned_at = max(0.0, now - self._earned_at), now
        self._earned = min(BURST, self._earned + passed * OBJECTS_A_SECOND)
        pause = min(1.0, max(0.0, 1.0 - self._earned)) / OBJECTS_A_SECOND
        self._earned = max(-1.0, self._earned - 1.0)
        return pause

    def _settle(self, count: int) -> None:
        with self._idle:
            self._pending -= count
            self._idle.notify_all()

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            message = f"raylab: the ledger cannot be written ({error}). Training goes on; until it can be "
            message += "written, labctl has no evidence and will call a recovery not-verified."
            logger.warning(message)
            print(message, flush=True)


def open_recorder(job: str, role: str, common: dict[str, Any]) -> Recorder | None:
    """The recorder of this process, or None where the lab keeps no ledger (or its URI is unusable)."""
    uri = os.environ.get(LEDGER_VARIABLE)
    if not uri:
        return None
    try:
        write = pyarrow_writer(uri)
    except Exception as error:
        logger.warning(
            "raylab: no ledger will be written: %s=%s is unusable: %s", LEDGER_VARIABLE, uri, error
        )
        return None
    prefix = f"{job}/{role}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    return Recorder(write, prefix, {"job": job, **common})
