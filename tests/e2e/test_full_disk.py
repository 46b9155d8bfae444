"""The disk of the object store fills up while a job trains."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lab.cluster.checkpoints import stored_manifest
from lab.errors import StoreError
from lab.services import STORE
from tests.e2e.harness import PATIENCE, Bench
from tests.waiting import eventually


@contextlib.contextmanager
def full_disk(bench: Bench) -> Iterator[None]:
    """No room for a checkpoint: a full disk where one was mounted, else a limit on the store's files."""
    objects = bench.folder / "objects"
    if os.path.ismount(objects):
        with filled(objects):
            yield
        return
    store = psutil.Process(bench.state().leaders[STORE].pid)
    before = store.rlimit(psutil.RLIMIT_FSIZE)
    store.rlimit(psutil.RLIMIT_FSIZE, (64 * 1024, before[1]))
    try:
        yield
    finally:
        store.rlimit(psutil.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    filler = folder / "filler"
    try:
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(1 << 20))
        with contextlib.suppress(OSError), filler.open("ab", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))
        yield
    finally:
        filler.unlink(missing_ok=True)


def test_a_full_disk_fails_the_job_with_the_reason_and_keeps_earlier_checkpoints(bench: Bench) -> None:
    lab = bench.lab
    job = bench.digits(epochs=500, max_failures=0)
    eventually(lambda: lab.history(job).runs[-1].checkpoints, PATIENCE, "a checkpoint is complete")
    with full_disk(bench):
        assert lab.jobs.wait(job, PATIENCE).status == "FAILED"
        with pytest.raises(StoreError, match="cannot store anything more"):
            lab.store.put("e2e/more", bytes(1 << 20))
        saved = lab.history(job).runs[-1].checkpoints
        assert saved
        for checkpoint in saved:
            assert checkpoint.files is not None
            stored = stored_manifest(lab.store, checkpoint.uri)
            assert {path: frozenset({digest}) for path, digest in stored.items()} == dict(checkpoint.files)
        shown = bench.labctl("jobs", "show", job, "--json").document
        assert shown["status"] == "FAILED"
    log = lab.jobs.logs(job)
    assert "StorageFull" in log or "No space left" in log or "cannot store" in log, log[-3000:]
    lab.store.put("e2e/more", bytes(1 << 20))
    assert lab.status().healthy
