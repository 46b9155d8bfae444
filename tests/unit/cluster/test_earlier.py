"""Jobs of an earlier cluster, told by their ledgers."""

from __future__ import annotations

import json

import pytest

from lab.cluster.earlier import MOST, earlier_job, earlier_jobs
from lab.errors import NotFoundError
from lab.store import StoredObject
from lab.topology import LEDGER_PREFIX
from tests.fakes.store import FakeObjectStore
from tests.unit.flows.world import Drill


def put(
    store: FakeObjectStore, job: str, stream: str, number: int, at: float, *names: str, **end: object
) -> None:
    """One object of a ledger with these events; `end` is in the last one."""
    common = {"schema": "ledger/1", "at": at, "job": job, "run": "r"}
    lines = [json.dumps({**common, "event": n, **(end if n == names[-1] else {})}) for n in names]
    key = f"{LEDGER_PREFIX}/{job}/{stream}-{number:06d}.jsonl"
    store.buckets["ray"][key] = ("\n".join(lines).encode(), at)


@pytest.fixture
def store() -> FakeObjectStore:
    store = FakeObjectStore()
    put(store, "good", "controller-1-aa", 0, 100.0, "run_started")
    put(store, "good", "rank0-2-bb", 0, 130.0, "report")
    put(store, "good", "controller-1-aa", 1, 150.0, "run_finished", error=None)
    put(store, "bad", "controller-1-cc", 0, 200.0, "run_started", "run_finished", error="ValueError('x')")
    put(store, "lost", "controller-1-dd", 0, 300.0, "run_started")
    put(store, "interactive-01000000", "controller-1-ee", 0, 400.0, "run_started")
    put(store, "known", "controller-1-ff", 0, 500.0, "run_started")
    return store


def test_jobs_that_ray_does_not_know_are_told_with_their_end(store: FakeObjectStore) -> None:
    jobs = earlier_jobs(store, {"known"})

    assert [(job.submission_id, job.message) for job in jobs] == [
        ("lost", "its end is not recorded: the ledger stops before it"),
        ("bad", "its training failed: ValueError('x')"),
        ("good", "its training finished"),
    ]
    assert [job.started_at for job in jobs] == [300.0, 200.0, 100.0]
    assert [job.ended_at for job in jobs] == [None, 200.0, 150.0]
    assert all(job.earlier and job.final and job.status == "EARLIER" for job in jobs)


def test_one_run_that_ended_of_two_is_no_end_of_the_job(store: FakeObjectStore) -> None:
    put(store, "good", "controller-9-zz", 0, 160.0, "run_started")

    job = earlier_job(store, "good")

    assert job is not None
    assert (job.message, job.ended_at) == ("its end is not recorded: the ledger stops before it", None)


def test_only_the_newest_are_read(store: FakeObjectStore) -> None:
    for number in range(MOST + 5):
        put(store, f"j{number}", "controller-1-aa", 0, 1000.0 + number, "run_started")

    jobs = earlier_jobs(store, set())

    assert [job.submission_id for job in jobs] == [f"j{n}" for n in range(MOST + 4, 4, -1)]


def test_ledgers_of_jobs_that_ray_knows_are_not_listed(store: FakeObjectStore) -> None:
    listed: list[str] = []
    listing = store.list

    def counted(prefix: str = "", recursive: bool = True) -> tuple[StoredObject, ...]:
        entries = listing(prefix, recursive)
        listed.extend(entry.key for entry in entries if not entry.key.endswith("/"))
        return entries

    store.list = counted  # type: ignore[method-assign]
    assert earlier_jobs(store, {"good", "bad", "lost", "known"}) == ()
    assert listed == []
    assert [job.submission_id for job in earlier_jobs(store, {"good", "lost", "known"})] == ["bad"]
    assert all("/bad/" in key for key in listed)


def test_a_job_that_nobody_knows_has_no_ledger(store: FakeObjectStore) -> None:
    assert earlier_job(store, "goo") is None
    assert earlier_job(store, "interactive-01000000") is None


def test_a_lab_knows_its_earlier_jobs_and_their_checkpoints() -> None:
    world = Drill()
    world.write("run_started", "old")
    world.jobs.become("RUNNING", "new")

    assert world.lab.job("old").earlier
    assert not world.lab.job("new").earlier
    assert world.lab.checkpoints("old") == ()
    assert [job.submission_id for job in world.lab.earlier_jobs(world.jobs.list())] == ["old"]
    with pytest.raises(NotFoundError, match="no job 'other'"):
        world.lab.job("other")
