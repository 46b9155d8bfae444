"""Growth of what is stored: the receipt of a long ledger, and a store with many objects. No Ray runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.cli_lab import clean
from benchmarks.compare import LostError
from benchmarks.growth import Curves, median_of
from benchmarks.measure import timed
from lab.errors import LabError
from lab.host.files import ROOT
from lab.runtime.local.processes import memory
from lab.store import ObjectStore
from lab.store.server.disk import BucketRecord, Disk, ObjectRecord
from lab.topology import BUCKET, LEDGER_PREFIX, REGION, Credentials

JOB, RUN = "long", "run"
STEPS_A_SECOND = 50
MINUTES = (1, 5, 15, 60)
CHECKPOINT_SECONDS = 10
"""Time from one checkpoint to the next, of which the store keeps one."""

EVERY = CHECKPOINT_SECONDS * STEPS_A_SECOND
"""Steps from one to the next."""

TOGETHER = 5 * STEPS_A_SECOND
"""Steps of one event, where they do not report."""

OBJECTS = (1_000, 10_000, 100_000)
FOLDER_OBJECTS = 10
"""Objects in each folder."""

DATA = b"weights"
"""The file of a checkpoint."""

BEGIN = 1_795_000_000.0
START_SECONDS = 300.0
TIMES = 5


def ledger(curves: Curves) -> None:
    """`labctl receipt` of a job that reports each of 50 steps a second, and of one that records each."""
    for minutes in MINUTES:
        for what, lines in (("reports", True), ("steps", False)):
            entries = list(training(60 * minutes, each_reports=lines))
            with served(objects_of(entries).items()) as store:
                seconds, busy, mib = receipt(store)
            curves.add(minutes, f"receipt, {what}", "s", seconds)
            curves.add(minutes, f"receipt, {what}, processor time", "s", busy)
            curves.add(minutes, f"receipt, {what}, peak memory", "MiB", mib)


def objects(curves: Curves) -> None:
    """A store with many objects: its start, memory, listings, writes, and a receipt from among them."""
    short = objects_of(list(training(60, each_reports=False)))
    for count in OBJECTS:
        others = ((f"data/{n // FOLDER_OBJECTS:06d}/part-{n:07d}", b"x" * 1000) for n in range(count))
        with served((*short.items(), *others)) as store:
            _measure(curves, count, store)


def _measure(curves: Curves, count: int, store: Served) -> None:
    client, busy = store.client, "processor time"
    curves.add(count, "start of the server", "s", store.started)
    curves.add(count, f"start of the server, {busy}", "s", store.busy())
    curves.add(count, "memory of the server", "MB", memory(store.process) / 1e6)
    before = store.busy() + time.process_time()
    curves.add(count, "list all", "s", timed(lambda: list(client.list())))
    curves.add(count, f"list all, {busy}", "s", store.busy() + time.process_time() - before)
    curves.add(count, "list a folder", "ms", _ms(lambda: list(client.list("data/000050/"))))
    curves.add(count, "put 1 kB", "ms", _ms(lambda: client.put("data/new", b"x" * 1000)))
    curves.add(count, f"receipt of a short job, {busy}", "s", receipt(store)[1])


def _ms(action: Callable[[], object]) -> float:
    return 1000 * median_of(lambda: timed(action), TIMES)


# The ledger


def training(seconds: int, *, each_reports: bool) -> Iterator[dict[str, object]]:
    """The events of a run of one rank that loses its node after three quarters, and ends well."""
    steps = seconds * STEPS_A_SECOND
    lost = steps * 3 // 4
    kept = lost // EVERY * EVERY
    plan = {"storage_path": f"s3://{BUCKET}", "num_workers": 1, "max_failures": 3, "num_to_keep": 1}
    yield _controller("run_started", 0, 0.0, **plan, config={"steps": steps})
    for attempt, first, last, delay in ((1, 1, lost, 5.0), (2, kept + 1, steps, 10.0 + CHECKPOINT_SECONDS)):
        yield from _beginning(attempt, first / STEPS_A_SECOND + delay, kept if attempt == 2 else 0)
        for step in range(first, last + 1):
            at = step / STEPS_A_SECOND + delay
            number = step - first + 1 if each_reports else step // EVERY - (first - 1) // EVERY
            yield from _step(attempt, step, step - first + 1, at, number, reports=each_reports)
        taken = last - first + 1 if each_reports else last // EVERY - (first - 1) // EVERY
        if attempt == 1:
            yield _controller("failure_detected", 1, at + 1, decision="RETRY", reports=taken)
        yield _controller("attempt_ended", attempt, at + 1.1, reports=taken)
    yield _controller("run_finished", 2, at + 2.0, error=None)


def _beginning(attempt: int, at: float, kept: int) -> Iterator[dict[str, object]]:
    """The events of an attempt whose first step is at this time, from a checkpoint of a step or none."""
    begun = _uri(kept) if kept else None
    node = f"node-{attempt}"
    yield _controller("attempt_scheduled", attempt, at - 2.0, num_workers=1)
    yield _rank("rank_ready", attempt, at - 1.5, launched_at=BEGIN + at - 1.8, service=f"ray-{node}")
    workers = [{"rank": 0, "node_id": node, "pid": attempt}]
    yield _controller("attempt_started", attempt, at - 1.4, workers=workers)
    yield _controller("training_started", attempt, at - 1.3)
    yield _rank("function_started", attempt, at - 1.2)
    yield _rank("get_checkpoint", attempt, at - 1.1, uri=begun)
    if begun:
        yield _rank("checkpoint_loaded", attempt, at - 1.0, uri=begun, files=_files(), tensors=["b"])
    state = _state(kept if begun else 0)
    yield _rank("state_begun", attempt, at - 0.9, optimizer=0, steps=0, gradients=True, state=state)


def _step(
    attempt: int, step: int, done: int, at: float, number: int, *, reports: bool
) -> Iterator[dict[str, object]]:
    """The events of one step, which reports, or is one of those that are recorded together."""
    uri = _uri(step) if step % EVERY == 0 else None
    metrics = {"step": step, "loss": 1 / step}
    if uri:
        both = {"report": number, "metrics": metrics}
        yield _rank("state_handed", attempt, at, handed=True, state=_state(step), changed=[], **both)
        yield _rank("checkpoint_saved", attempt, at, uri=uri, files=_files(), **both)
    if uri or reports:
        said = {"metrics": metrics, "optimizer_steps": done, "report": number}
        yield _rank("report", attempt, at, checkpoint=uri, **said)
    if uri:
        yield _controller("checkpoint_committed", attempt, at, uri=uri, metrics=metrics)
    if not reports and step % TOGETHER == 0:
        ms = [1000 // STEPS_A_SECOND] * (TOGETHER - 1)
        began = BEGIN + at - sum(ms) / 1000
        yield _rank("steps", attempt, at, first=step - len(ms), began=began, ms=ms, ranks=1)


def _uri(step: int) -> str:
    return f"s3://{BUCKET}/{RUN}/checkpoint_{step:09d}"


def _state(step: int) -> dict[str, object]:
    return {"tensors": {"0.weight": f"x{step:016x}:4"}, "order": [["0.weight"]]}


def _files() -> dict[str, object]:
    return {"model.pt": {"size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest()}}


def _controller(event: str, attempt: int, at: float, **fields: object) -> dict[str, object]:
    return _line("controller-1-a", event, attempt, at, **fields)


def _rank(event: str, attempt: int, at: float, **fields: object) -> dict[str, object]:
    who = {"rank": 0, "node_id": f"node-{attempt}", "pid": attempt}
    return _line(f"rank0-{attempt}-a", event, attempt, at, **who, **fields)


def _line(stream: str, event: str, attempt: int, at: float, **fields: object) -> dict[str, object]:
    header = {"schema": "ledger/1", "event": event, "at": BEGIN + at, "stream": stream, "job": JOB}
    return {**header, "run": RUN, "run_id": "r", "attempt": attempt, **fields}


def objects_of(entries: Iterable[dict[str, object]]) -> dict[str, bytes]:
    """The objects that recorders write: one of each process and second, and the last checkpoint's file."""
    grouped: dict[tuple[str, int], list[bytes]] = {}
    counts: dict[str, int] = {}
    newest = ""
    for entry in entries:
        stream = str(entry["stream"])
        counts[stream] = counts.get(stream, 0) + 1
        if entry["event"] == "checkpoint_committed":
            newest = str(entry["uri"])
        line = json.dumps({**entry, "n": counts[stream]}, separators=(",", ":")).encode()
        assert isinstance(entry["at"], float)
        grouped.setdefault((stream, int(entry["at"])), []).append(line)
    made = {f"{LEDGER_PREFIX}/{JOB}/{s}-{at}.jsonl": b"\n".join(lines) for (s, at), lines in grouped.items()}
    return {**made, f"{newest.removeprefix(f's3://{BUCKET}/')}/model.pt": DATA}


def receipt(store: Served) -> tuple[float, float, float]:
    """Seconds, processor time (the store's too) and peak MiB of `labctl receipt`. Raises LostError."""
    command = [sys.executable, str(ROOT / "labctl.py"), "receipt", JOB, "--storage", f"s3://{BUCKET}"]
    key = {"AWS_ACCESS_KEY_ID": store.key.access_key, "AWS_SECRET_ACCESS_KEY": store.key.secret_key}
    environment = {**clean(os.environ), **key, "LABCTL_NO_VENV": "1"}
    begin, before = time.perf_counter(), store.busy()
    with (
        tempfile.TemporaryFile() as out,
        subprocess.Popen(
            [*command, "--endpoint", store.client.endpoint_url, "--json"], env=environment, stdout=out
        ) as process,
    ):
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begin
        out.seek(0)
        document = json.loads(out.read() or "{}")
    if "verdict" not in document:
        raise LostError(f"labctl receipt: exit code {process.returncode}")
    return seconds, used.ru_utime + used.ru_stime + store.busy() - before, used.ru_maxrss / 1024


# The store


@dataclass(frozen=True)
class Served:
    """A stand-in server with its objects."""

    client: ObjectStore
    key: Credentials
    process: psutil.Process
    started: float
    """Seconds until it answered."""

    def busy(self) -> float:
        """Seconds of processor time so far."""
        return sum(self.process.cpu_times()[:2])


@contextlib.contextmanager
def served(stored: Iterable[tuple[str, bytes]]) -> Iterator[Served]:
    """Yield a server that had these objects when it was started."""
    with tempfile.TemporaryDirectory(prefix="raylab-bench-") as name:
        folder, key = Path(name), Credentials("bench", secrets.token_hex(20))
        fill(folder / "objects", stored)
        file = folder / "key.json"
        file.write_text(json.dumps({"access_key": key.access_key, "secret_key": key.secret_key}))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "lab.store.server", "--port", str(port), "--credentials", str(file)]
        for part in ("user", "password"):
            (folder / part).write_text("bench-root")
            command += [f"--root-{part}-file", str(folder / part)]
        begin = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--root", str(folder / "objects")], cwd=ROOT, stderr=subprocess.DEVNULL
        )
        try:
            client = ObjectStore(f"http://127.0.0.1:{port}", key)
            _until_it_answers(client, process)
            yield Served(client, key, psutil.Process(process.pid), time.perf_counter() - begin)
        finally:
            process.kill()
            process.wait()


def fill(root: Path, stored: Iterable[tuple[str, bytes]]) -> None:
    """Write objects to a server's folder, without a wait for the disk."""
    now = "2026-11-01T00:00:00"
    disk = Disk(root, lambda _: None, fsync=lambda _: None)
    disk.create_bucket(BucketRecord(BUCKET, REGION, f"{now}+00:00"))
    for name, data in stored:
        disk.write(BUCKET, ObjectRecord(name, len(data), "0" * 32, now), [data])
    disk.close()


def _until_it_answers(client: ObjectStore, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(LabError):
            client.list("none/")
            return
        time.sleep(0.02)
    raise LostError("the server does not answer")
