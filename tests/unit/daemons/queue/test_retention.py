"""Growth: what the controller keeps is bounded, whatever was, and nothing that has not ended is dropped."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kueue.places import Change
from kueue.reading import read
from kueue.writing import as_yaml, workload_object
from lab.api.queue import Attempt
from lab.api.queue_requests import JobRequest, Workers
from lab.daemons.queue import requests
from lab.daemons.queue.metrics import exposition
from lab.daemons.queue.model import DONE, HOLDING, INACTIVE, QUEUED, QueuedJob, Record
from lab.daemons.queue.packages import KEPT_SECONDS
from lab.daemons.queue.retention import (
    ACTIVATE_SECONDS,
    LEAST_SECONDS,
    MOST_EVENTS,
    MOST_FINISHED,
    outlived,
)
from lab.daemons.queue.store import Batch, StateStore
from lab.errors import StateError
from tests.unit.daemons.queue.world import GPU, ControllerLab, queue

DAY = 24 * 3600.0
NOW = 1_800_000_000.0
ZIP = b"PK\x05\x06" + bytes(18)
JOB = JobRequest(command=("python", "train.py"), queue="a", workers=Workers(1, gpus=1))


class QuickStore(StateStore):
    SYNCHRONOUS = "OFF"
    """What is measured is the file, not the disk."""

    @property
    def size(self) -> int:
        """Bytes of the file, what is not yet copied into it included."""
        return sum(path.stat().st_size for path in self.path.parent.glob(f"{self.path.name}*"))


def record(name: str, finished_at: float | None, phase: str = DONE) -> Record:
    attempt = Attempt(1, name, NOW, NOW + 1, NOW + 2, finished_at, "SUCCEEDED", "it went well")
    return Record(
        f"ns/{name}", QueuedJob(("python", "train.py"), attempts=(attempt,)), phase, NOW, finished_at
    )


# Who goes


def test_the_newest_are_kept_and_the_oldest_go_first() -> None:
    done = [record(f"job-{age}", NOW - age * LEAST_SECONDS) for age in range(1, 6)]
    assert outlived(done, NOW, None, 2) == ["ns/job-5", "ns/job-4", "ns/job-3"]
    assert outlived(done, NOW, None, 5) == []


def test_a_time_that_is_set_counts_too() -> None:
    done = [record(f"job-{age}", NOW - age * DAY) for age in range(1, 6)]
    assert outlived(done, NOW, 3 * DAY, 100) == ["ns/job-5", "ns/job-4", "ns/job-3"]
    assert outlived(done, NOW, 30 * DAY, 4) == ["ns/job-5"]


def test_a_job_that_has_just_ended_is_kept_in_any_case() -> None:
    fresh = [record("new", NOW - LEAST_SECONDS + 1), record("old", NOW - LEAST_SECONDS)]
    assert outlived(fresh, NOW, 0.0, 0) == ["ns/old"]


def test_what_has_not_ended_never_goes() -> None:
    living = [record(phase, None, phase) for phase in (QUEUED, *HOLDING, INACTIVE)]
    assert outlived(living, NOW + 1000 * DAY, 0.0, 0) == []


# The file


def test_the_file_stays_as_it_is_over_sixteen_thousand_jobs(tmp_path: Path) -> None:
    store = QuickStore(tmp_path)
    setup = read([("a.yaml", as_yaml(queue("a", 2)))]).setup
    document = workload_object(requests.workload(JOB, "job-x", setup, GPU, NOW))
    waiting = record("waits", None, QUEUED)
    store.commit(Batch(workloads=[(waiting, document)], events=[_change(waiting, "Pending")]))
    living: dict[str, Record] = {waiting.key: waiting}
    sizes = []
    for turn in range(16):  # a file is full after three
        now = NOW + turn * 1200
        made = [record(f"job-{turn}-{number}", now) for number in range(1_000)]
        living |= {workload.key: workload for workload in made}
        batch = Batch(
            workloads=[(workload, document) for workload in made],
            events=[
                _change(workload, event) for workload in made for event in ("Pending", "Admitted", "Finished")
            ],
        )
        store.commit(batch)
        gone = outlived(living.values(), now, None, MOST_FINISHED)
        store.commit(Batch(forgotten=gone))
        store.trim(MOST_EVENTS)
        for key in gone:
            del living[key]
        sizes.append(store.size)
    assert sum(1 for key in living if key != waiting.key) <= MOST_FINISHED + 1_000
    assert {workload.key for workload, _ in store.load().workloads} == set(living)
    assert waiting.key in living
    assert [event.change.event for event in store.events(workload=waiting.key)] == ["Pending"]
    assert max(sizes[8:]) <= 1.02 * max(sizes[:8]), "it grows"
    store.close()


def _change(job: Record, event: str) -> Change:
    message = "Quota reserved in ClusterQueue a; admitted by ClusterQueue a"
    return Change(NOW, event, job.key, event, message, "a", {"workers": {GPU: "h100"}})


def test_events_of_one_job_are_bounded_and_those_of_others_are_left(tmp_path: Path) -> None:
    store = QuickStore(tmp_path)
    restless, calm = record("restless", None, QUEUED), record("calm", None, QUEUED)
    turns = [_change(restless, f"Turn{number}") for number in range(10)]
    strangers = [Change(NOW, "Stopped", "", "QueuedOnly", f"job {number}") for number in range(9)]
    store.commit(Batch(events=[_change(calm, "Pending"), *turns, *strangers]))
    store.trim(4)
    assert [event.change.event for event in store.events(workload=restless.key)] == [
        f"Turn{number}" for number in range(6, 10)
    ]
    assert len(store.events()) == 4 + 4 + 1
    store.close()


# The controller


class Small(ControllerLab):
    """A world whose controller keeps little."""

    MOST_JOBS = 5

    def start(self) -> None:
        super().start()
        self.controller.most_finished = self.MOST_JOBS


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


def names(world: ControllerLab) -> set[str]:
    return {record.job.metadata["job_name"] for record in world.controller.records.values()}


def test_finished_jobs_are_dropped_and_all_others_stay(small: Small) -> None:
    small.apply(*queue("a", 2))
    small.submit("never fits", gpus=3)
    small.submit("runs on", work=100_000)
    for number in range(60):
        small.submit(f"job {number}", work=2)
        small.run(10)
    small.run(120)
    kept = {f"job {number}" for number in range(55, 60)}
    assert names(small) == {"never fits", "runs on", *kept}
    assert set(small.controller.engine.items) == set(small.controller.records)
    assert {event.change.workload for event in small.controller.events()} == set(small.controller.records)
    before = dict(small.controller.records)
    small.start()
    assert small.controller.records == before
    small.close()


def test_a_job_beyond_its_time_limit_and_its_package_go_like_any_other(small: Small) -> None:
    packages = small.controller.packages
    sha = hashlib.sha256(ZIP).hexdigest()
    packages.put(sha, ZIP)
    small.apply(*queue("a", 1))
    small.submit("too long", work=100_000, max_time=4, package=sha)
    small.run(12)
    small.submit("put aside", work=100_000)
    small.order("put aside", "deactivate", done=lambda record: record.phase == INACTIVE)
    small.clock.now += ACTIVATE_SECONDS - 60
    small.run(1)
    assert (small.job("too long").phase, packages.has(sha)) == (INACTIVE, True), "it can be activated still"
    small.clock.now += KEPT_SECONDS + 60
    small.run(1)
    small.run(70)
    item = small.controller.engine.items[small.job("too long").key]
    assert (item.reason, item.message) == ("Failed", "The workload exceeded its maximum execution time")
    assert not packages.has(sha)
    for number in range(6):
        small.submit(f"job {number}", work=1)
    small.run(200)
    assert "too long" not in names(small)
    assert len(names(small) - {"put aside"}) == Small.MOST_JOBS
    assert "put aside" in names(small)
    small.close()


def test_a_retention_of_kueue_is_followed(small: Small) -> None:
    policy = {"workloads": {"afterFinished": "5m"}}
    kind = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    small.apply(*queue("a", 1), {**kind, "objectRetentionPolicies": policy})
    small.submit("one", work=2)
    small.submit("too long", work=500, max_time=2)
    small.run(280)
    assert names(small) == {"one", "too long"}
    small.run(120)
    assert names(small) == {"too long"}
    assert small.job("too long").phase == DONE
    small.run(400)
    assert names(small) == set()
    small.close()


def test_what_was_counted_stays_counted_when_its_jobs_are_dropped(small: Small) -> None:
    small.apply(*queue("a", 1))
    metrics = exposition(small.controller)
    for number in range(8):
        small.submit(f"job {number}", work=1)
        small.run(5)
        metrics()
    small.run(120)
    text = metrics().decode()
    assert len(small.controller.records) == Small.MOST_JOBS
    labels = 'cluster_queue="a",priority_class="",replica_role="standalone"'
    assert f"kueue_finished_workloads_total{{{labels}}} 8.0" in text
    small.close()


def test_what_cannot_be_dropped_on_disk_is_kept(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    small.apply(*queue("a", 1))
    for number in range(7):
        small.submit(f"job {number}", work=1)
    small.settle()
    small.clock.now += LEAST_SECONDS + 60
    before = dict(small.controller.records)
    full = StateError("the disk is full")

    def fails(batch: Batch) -> None:
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(small.controller._store, "commit", fails)
        with pytest.raises(StateError):
            small.controller.tidy()
    with small.controller.change():
        assert small.controller.records == before
    small.controller.tidy()
    assert len(small.controller.records) == Small.MOST_JOBS
    small.close()
