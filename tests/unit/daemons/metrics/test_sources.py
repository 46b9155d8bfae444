"""What the metrics are made of: Ray's HTTP API, ledgers and faults in the store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.cluster.api import RayApi
from lab.cluster.jobs import Job
from lab.daemons.metrics.sources import (
    DISCOVER_SECONDS,
    MAX_FAULTS,
    MAX_INTERACTIVE,
    MAX_JOBS,
    MAX_LABEL,
    MAX_RUN_METRICS,
    MAX_RUNS,
    SETTLE_SECONDS,
    Address,
    ClusterSource,
    StoreSource,
    metrics_addresses,
)
from lab.errors import StoreError
from lab.faults.records import FAULTS_PREFIX, FaultLog, LoggedFault
from lab.topology import LEDGER_PREFIX
from tests.fakes.host import FakeClock
from tests.fakes.store import FakeObjectStore


def job(submission_id: str, status: str = "RUNNING") -> Job:
    return Job(submission_id, status, "python train.py", "", 1.0, None, "n", None, {})


class Lab:
    """A store, the jobs that Ray tells, and a clock."""

    def __init__(self) -> None:
        self.clock = FakeClock(0.0)
        self.jobs: list[Job] = []
        self.store = FakeObjectStore(clock=self.clock)
        self.source = StoreSource(self.store, lambda: self.jobs, self.clock)
        self._written = 0

    def write(self, job: str, event: str, run: str = "run", **fields: Any) -> None:
        self._written += 1
        entry = {"event": event, "at": float(self._written), "job": job, "run": run, "attempt": 1, **fields}
        key = f"{LEDGER_PREFIX}/{job}/x-{self._written:06d}.jsonl"
        self.store.put(key, json.dumps(entry).encode())

    def report(self, job: str, epoch: int, run: str = "run", **metrics: object) -> None:
        self.write(job, "report", run, rank=0, metrics={"epoch": epoch, **metrics}, checkpoint=None)


@pytest.fixture
def lab() -> Lab:
    return Lab()


# Runs


def test_a_run_is_shown_with_its_last_report_its_checkpoints_and_its_attempts(lab: Lab) -> None:
    lab.jobs = [job("a")]
    lab.write("a", "run_started", config={"epochs": 9})
    lab.report("a", 1, loss=0.9)
    lab.write("a", "checkpoint_committed", uri="s3://ray/run/c1", metrics={"epoch": 1})
    lab.report("a", 2, loss=0.5, val_accuracy=0.7, weights_sha256="abc", best=True, broken="nan")

    (run,) = lab.source.read().runs

    assert (run.job, run.run, run.epoch) == ("a", "run", 2)
    assert run.metrics == {"epoch": 2, "loss": 0.5, "val_accuracy": 0.7}
    assert (run.checkpoints, run.attempts) == (1, 1)


def test_every_object_of_a_ledger_is_read_once(lab: Lab) -> None:
    lab.jobs = [job("a")]
    for epoch in range(5):
        lab.report("a", epoch + 1)
        assert lab.source.read().runs[0].epoch == epoch + 1
    assert len(lab.store.reads) == len(set(lab.store.reads)) == 5


def test_an_ended_job_is_looked_at_until_its_last_lines_must_have_come_and_stays_shown(lab: Lab) -> None:
    lab.jobs = [job("a", "SUCCEEDED")]
    lab.source.read()
    lab.clock.now = SETTLE_SECONDS
    lab.report("a", 7)
    assert lab.source.read().runs[0].epoch == 7
    lab.clock.now = SETTLE_SECONDS + 1
    lab.report("a", 8)
    assert lab.source.read().runs[0].epoch == 7


def test_only_the_newest_jobs_and_runs_are_shown(lab: Lab) -> None:
    lab.jobs = [job(f"j{n}") for n in range(MAX_JOBS + 3)]
    for n in range(MAX_JOBS + 3):
        lab.report(f"j{n}", 1)
    for n in range(MAX_RUNS + 2):
        lab.report("j0", 1, run=f"extra{n}")

    runs = lab.source.read().runs

    assert {run.job for run in runs} == {f"j{n}" for n in range(MAX_JOBS)}
    assert [run.run for run in runs if run.job == "j0"] == [f"extra{n}" for n in range(2, MAX_RUNS + 2)]


def test_a_job_that_is_no_longer_among_the_newest_is_forgotten(lab: Lab) -> None:
    lab.jobs = [job("old")]
    lab.report("old", 1)
    assert lab.source.read().runs
    lab.jobs = [job("new")]
    assert lab.source.read().runs == ()


def test_the_metrics_of_a_run_are_bounded_and_their_names_fit_for_labels(lab: Lab) -> None:
    lab.jobs = [job("a")]
    many = {f"m{n:03d}": n for n in range(3 * MAX_RUN_METRICS)}
    lab.report("a", 1, run="r" * 300, **{"x" * 300: 1, "\ud800": 2, **many})

    (run,) = lab.source.read().runs

    assert len(run.metrics) == MAX_RUN_METRICS
    assert all(len(name) <= MAX_LABEL and name.encode() for name in (run.run, *run.metrics))


def test_a_name_that_a_job_uses_twice_is_the_newer_runs(lab: Lab) -> None:
    lab.jobs = [job("a")]
    lab.write("a", "run_started")
    lab.report("a", 9)
    lab.write("a", "run_started")
    lab.report("a", 1)
    (run,) = lab.source.read().runs
    assert run.epoch == 1


def test_training_in_a_notebook_is_found_by_its_ledger(lab: Lab) -> None:
    lab.report("interactive-01000000", 3)
    assert lab.source.read().runs[0].epoch == 3
    for n in range(2, MAX_INTERACTIVE + 4):
        lab.report(f"interactive-{n:02d}000000", 1)
    assert len(lab.source.read().runs) == 1, "it does not look for new ones every time"
    lab.clock.now += DISCOVER_SECONDS
    assert len(lab.source.read().runs) == MAX_INTERACTIVE


def test_the_notebooks_that_trained_last_are_shown_whatever_their_names(lab: Lab) -> None:
    for n in range(MAX_INTERACTIVE + 1):
        lab.report(f"interactive-{n + 5:02d}000000", 1)
    lab.clock.now += 1
    lab.report("interactive-01000000", 2)  # of a head that was started anew
    shown = {run.job for run in lab.source.read().runs}
    assert "interactive-01000000" in shown
    assert "interactive-05000000" not in shown


def test_a_store_that_fails_loses_nothing(lab: Lab) -> None:
    lab.jobs = [job("a")]
    lab.report("a", 1)
    lab.source.read()
    lab.store.failure = StoreError("cannot be reached")
    with pytest.raises(StoreError):
        lab.source.read()
    lab.store.failure = None
    lab.report("a", 2)
    assert lab.source.read().runs[0].epoch == 2


# Faults


def test_a_fault_is_read_until_it_is_reverted_and_then_never_again(lab: Lab) -> None:
    log = FaultLog(lab.store, "a", LoggedFault("kill", "ray-worker-0", 5.0))
    log.record()
    assert lab.source.read().faults == (LoggedFault("kill", "ray-worker-0", 5.0),)
    log.record(9.0)
    for _ in range(3):
        assert lab.source.read().faults == (LoggedFault("kill", "ray-worker-0", 5.0, 9.0),)
    assert lab.store.reads.count(log.key) == 2


def test_what_is_no_fault_is_passed_over_and_read_once(lab: Lab) -> None:
    key = f"{FAULTS_PREFIX}/a/1.json"
    lab.store.put(key, b"{")
    for _ in range(3):
        assert lab.source.read().faults == ()
    assert lab.store.reads == [key]


def test_the_newest_faults_are_counted(lab: Lab) -> None:
    for n in range(MAX_FAULTS + 5):
        lab.clock.now = float(n)
        FaultLog(lab.store, "a", LoggedFault("kill", "w", float(n))).record(float(n))
    faults = lab.source.read().faults
    assert len(faults) == MAX_FAULTS
    assert min(fault.at for fault in faults) == 5.0


# The cluster


def row(node_id: str, ip: str, port: object, state: str = "ALIVE") -> dict[str, Any]:
    return {"ip": ip, "raylet": {"nodeId": node_id, "state": state, "metricsExportPort": port}}


def test_a_node_is_found_under_the_address_at_which_prometheus_asks_it() -> None:
    rows = [
        row("a", "10.0.0.2", 4000),
        row("b", "fd00::2", 4001),
        row("dead", "10.0.0.3", 4002, "DEAD"),
        row("young", "10.0.0.4", None),
        {"ip": "10.0.0.5"},
    ]
    assert metrics_addresses({"data": {"summary": rows}}) == {
        "a": Address("10.0.0.2", "10.0.0.2:4000"),
        "b": Address("fd00::2", "[fd00::2]:4001"),
    }


def test_the_cluster_is_read_with_its_nodes_addresses_and_jobs() -> None:
    class Api(RayApi):
        def get(self, path: str, *, timeout: float = 1.0) -> Any:
            if path.startswith("/nodes?"):
                return {"data": {"summary": [row("n1", "10.0.0.2", 4000)]}}
            if path.startswith("/api/jobs"):
                return [{"submission_id": "a", "status": "RUNNING", "start_time": 1}]
            nodes = [{"node_id": "n1", "node_name": "ray-head", "state": "ALIVE"}]
            return {"data": {"result": {"result": nodes}}}

    view = ClusterSource(Api("http://127.0.0.1:1", "")).read()

    assert [node.service for node in view.nodes] == ["ray-head"]
    assert view.addresses["n1"].instance == "10.0.0.2:4000"
    assert [job.submission_id for job in view.jobs] == ["a"]
