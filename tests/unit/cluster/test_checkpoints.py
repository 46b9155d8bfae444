from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from lab.cluster.checkpoints import JobLedger, ledgers, list_checkpoints, stored_manifest
from lab.errors import StoreError
from lab.evidence.ledger import manifest_sha256
from lab.store import StoredObject
from tests.fakes.store import FakeObjectStore

RUN = "run-1"


def line(event: str, at: float, job: str = "job-1", **fields: Any) -> bytes:
    entry = {"schema": "ledger/1", "event": event, "at": at, "job": job, "run": RUN, "attempt": 1, **fields}
    return json.dumps(entry).encode() + b"\n"


def saved(at: float, name: str, files: dict[str, str] | None, epoch: int = 1, **more: Any) -> bytes:
    manifest = None if files is None else {path: {"size": 1, "sha256": sum_} for path, sum_ in files.items()}
    more = {"rank": 0, "node_id": "n", **more}
    metrics = {"epoch": epoch}
    return line("checkpoint_saved", at, uri=f"s3://ray/{RUN}/{name}", files=manifest, metrics=metrics, **more)


def committed(at: float, name: str, epoch: int = 1, **more: Any) -> bytes:
    return line("checkpoint_committed", at, uri=f"s3://ray/{RUN}/{name}", metrics={"epoch": epoch}, **more)


def report(at: float, epoch: int, **more: Any) -> bytes:
    return line("report", at, rank=0, node_id="n", metrics={"epoch": epoch}, checkpoint=None, **more)


def ledger(store: FakeObjectStore, *lines: bytes, job: str = "job-1", name: str = "rank0-1-000000") -> None:
    store.put(f".raylab/ledger/{job}/{name}.jsonl", b"".join(lines))


@pytest.fixture
def store() -> FakeObjectStore:
    ticks: Iterator[int] = count(1_000)
    store = FakeObjectStore(clock=lambda: float(next(ticks)))
    for name in ("checkpoint_a", "checkpoint_b"):
        store.put(f"{RUN}/{name}/", b"")
        store.put(f"{RUN}/{name}/model.pt", name.encode())
        store.put(f"{RUN}/{name}/deep/state.bin", b"1234")
    store.put(f"{RUN}/checkpoint_manager_snapshot.json", b"{}")
    store.put("notes.txt", b"not a checkpoint")
    return store


def test_checkpoints_without_a_ledger_are_listed_with_what_is_known(store: FakeObjectStore) -> None:
    first, second = list_checkpoints(store)
    assert (first.uri, first.run, first.name) == ("s3://ray/run-1/checkpoint_a", "run-1", "checkpoint_a")
    assert first.files == ("deep/state.bin", "model.pt"), "the folder's marker is no file"
    assert first.size == len(b"checkpoint_a") + 4
    assert first.modified < second.modified
    assert (first.epoch, first.sha256, first.job) == (None, None, None)


def test_the_ledger_adds_epoch_sum_and_job(store: FakeObjectStore) -> None:
    files = {"model.pt": "aa", "deep/state.bin": "bb"}
    ledger(store, saved(1, "checkpoint_a", files, 3), committed(2, "checkpoint_a", 3), report(3, 3))
    first, second = list_checkpoints(store)
    assert (first.epoch, first.sha256, first.job) == (3, manifest_sha256(files), "job-1")
    assert second.job is None


def test_a_checkpoint_that_was_saved_but_never_committed_is_known(store: FakeObjectStore) -> None:
    ledger(store, saved(1, "checkpoint_b", {"model.pt": "cc"}, 7))
    second = list_checkpoints(store)[1]
    assert (second.epoch, second.sha256, second.job) == (7, manifest_sha256({"model.pt": "cc"}), "job-1")


@pytest.mark.parametrize("folder", ["/shared/run-1", "s3://other/run-1"])
def test_a_checkpoint_that_was_committed_elsewhere_is_told_by_its_ledger(
    store: FakeObjectStore, folder: str
) -> None:
    uri = f"{folder}/checkpoint_e"
    ledger(
        store,
        line("checkpoint_saved", 1, uri=uri, rank=0, files={"model.pt": {"size": 7, "sha256": "ee"}}),
        line("checkpoint_saved", 1, uri=f"{folder}/checkpoint_f", rank=0, files={}),
        line("checkpoint_committed", 2, uri=uri, metrics={"epoch": 4}),
        report(3, 4),
    )
    assert [c.name for c in list_checkpoints(store)] == ["checkpoint_e", "checkpoint_a", "checkpoint_b"]
    (checkpoint,) = list_checkpoints(store, "job-1")
    assert (checkpoint.uri, checkpoint.run, checkpoint.in_store) == (uri, RUN, False)
    assert (checkpoint.files, checkpoint.size) == (("model.pt",), 7)
    assert (checkpoint.modified, checkpoint.epoch) == (2, 4)
    assert checkpoint.sha256 == manifest_sha256({"model.pt": "ee"})


def test_a_save_without_manifest_has_no_sum(store: FakeObjectStore) -> None:
    ledger(store, saved(1, "checkpoint_b", None), line("checkpoint_saved", 2, uri=7), b"half a li")
    second = list_checkpoints(store)[1]
    assert (second.job, second.sha256) == ("job-1", None)


def test_one_job_shows_only_its_own(store: FakeObjectStore) -> None:
    ledger(store, committed(1, "checkpoint_a"))
    ledger(store, committed(1, "checkpoint_b", job="job-2"), job="job-2")
    assert [c.name for c in list_checkpoints(store, "job-2")] == ["checkpoint_b"]
    assert list_checkpoints(store, "job-3") == ()
    assert {c.job for c in list_checkpoints(store)} == {"job-1", "job-2"}


def test_one_jobs_are_listed_by_whoever_may_list_only_where_it_stored_them(
    store: FakeObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of a person of a class reaches her own folder, and the ledgers of her own jobs."""
    ledger(store, committed(1, "checkpoint_a"))
    everything = store.list

    def limited(prefix: str = "", recursive: bool = True) -> tuple[StoredObject, ...]:
        if not prefix.startswith((f"{RUN}/", ".raylab/ledger/job-1")):
            raise StoreError("Access Denied")
        return everything(prefix, recursive)

    monkeypatch.setattr(store, "list", limited)
    assert [c.name for c in list_checkpoints(store, "job-1")] == ["checkpoint_a"]


def test_runs_can_lie_in_folders(store: FakeObjectStore) -> None:
    store.put("team/x/run-2/checkpoint_c/m", b"1")
    last = list_checkpoints(store)[-1]
    assert (last.run, last.uri) == ("run-2", "s3://ray/team/x/run-2/checkpoint_c")


def test_ledgers_names_the_jobs(store: FakeObjectStore) -> None:
    assert ledgers(store) == ()
    ledger(store, report(1, 1), job="b")
    ledger(store, report(1, 1), job="a")
    assert ledgers(store) == ("a", "b")


def test_a_line_that_was_stored_twice_is_one_event_whenever_the_copy_comes(store: FakeObjectStore) -> None:
    kept = JobLedger(store, "job-1")
    ledger(store, report(5, 1))
    assert len(kept.poll().runs[0].attempts[0].reports) == 1
    ledger(store, report(5, 1), report(6, 2), name="rank0-1-000001")
    assert [r.progress for r in kept.poll().runs[0].attempts[0].reports] == [1, 2]
    assert len(kept.events) == 2


def test_a_kept_ledger_reads_no_object_twice_and_tells_the_whole_history(store: FakeObjectStore) -> None:
    kept = JobLedger(store, "job-1")
    assert kept.poll().runs == ()
    ledger(store, report(5, 2), report(4, 1))
    first = kept.poll()
    assert [e.at for e in kept.events] == [4, 5]
    assert kept.poll() is first, "nothing new, so nothing is put together anew"
    ledger(store, report(6, 3), name="rank0-1-000001")
    assert [r.progress for r in kept.poll().runs[0].attempts[0].reports] == [1, 2, 3]
    assert len(store.reads) == 2
    store.failure = StoreError("cut off")
    with pytest.raises(StoreError):
        kept.poll()
    assert len(kept.events) == 3


def test_ledgers_of_other_jobs_are_not_read(store: FakeObjectStore) -> None:
    ledger(store, report(1, 1, job="job-10"), job="job-10")
    assert JobLedger(store, "job-1").poll().runs == ()


class Breaking(FakeObjectStore):
    """Fails while the object named `broken` is read."""

    broken = ""

    def read(self, key: str) -> Iterator[bytes]:
        if key.endswith(self.broken) and self.broken:
            raise StoreError("cut off")
        return super().read(key)


def test_a_poll_that_fails_midway_loses_nothing() -> None:
    store = Breaking()
    ledger(store, report(1, 1), name="a-000000")
    ledger(store, report(2, 2), name="b-000000")
    store.broken = "b-000000.jsonl"
    reader = JobLedger(store, "job-1")
    with pytest.raises(StoreError, match="cut off"):
        reader.poll()
    store.broken = ""
    reader.poll()
    assert [e.at for e in reader.events] == [1, 2]
    assert store.reads.count(".raylab/ledger/job-1/a-000000.jsonl") == 1


def test_a_stored_checkpoint_is_hashed_as_it_lies_there(store: FakeObjectStore) -> None:
    store.put(f"{RUN}/checkpoint_abc/model.pt", b"of another checkpoint")
    assert stored_manifest(store, f"s3://ray/{RUN}/checkpoint_a") == {
        "model.pt": hashlib.sha256(b"checkpoint_a").hexdigest(),
        "deep/state.bin": hashlib.sha256(b"1234").hexdigest(),
    }


def test_another_bucket_is_read_too(store: FakeObjectStore) -> None:
    store.ensure_bucket("mine")
    store.in_bucket("mine").put("r/checkpoint_a/m", b"1")
    assert stored_manifest(store, "s3://mine/r/checkpoint_a/") == {"m": hashlib.sha256(b"1").hexdigest()}


@pytest.mark.parametrize("uri", ["s3://ray/run-1/checkpoint_gone", "/local/checkpoint_a", "s3://ray", ""])
def test_what_is_not_there_has_no_manifest(store: FakeObjectStore, uri: str) -> None:
    assert stored_manifest(store, uri) == {}


def test_a_checkpoint_deleted_while_it_is_read_has_no_manifest(store: FakeObjectStore) -> None:
    class Stale(FakeObjectStore):
        def in_bucket(self, name: str) -> FakeObjectStore:
            return self

        def list(self, prefix: str = "", recursive: bool = True) -> tuple[StoredObject, ...]:
            return (StoredObject(f"{prefix}model.pt", 1, 1.0, ""),)

    assert stored_manifest(Stale(), "s3://ray/run-1/checkpoint_a") == {}


def test_a_store_that_is_down_is_not_an_empty_one(store: FakeObjectStore) -> None:
    reader = JobLedger(store, "job-1")
    store.failure = StoreError("down")
    for call in (reader.poll, lambda: ledgers(store), lambda: list_checkpoints(store)):
        with pytest.raises(StoreError, match="down"):
            call()
    with pytest.raises(StoreError, match="down"):
        stored_manifest(store, "s3://ray/run-1/checkpoint_a")
