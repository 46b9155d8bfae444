"""A lab keeps its head: one that stood still loses nobody, and a head that died comes back by itself."""

from __future__ import annotations

import os
import signal

from benchmarks.hardship import stand_still
from lab.services import HEAD
from tests.e2e.harness import PATIENCE, Bench
from tests.waiting import eventually

STILL_SECONDS = 5.0


def trains(bench: Bench, job: str) -> int:
    """The reports of a job so far; it must be in its first attempt."""
    attempts = [attempt for run in bench.lab.history(job).runs for attempt in run.attempts]
    assert [attempt.number for attempt in attempts] in ([], [1])
    return sum(len(attempt.reports) for attempt in attempts)


def test_a_lab_that_stood_still_for_some_seconds_loses_no_node_and_no_attempt(bench: Bench) -> None:
    job = bench.digits(epochs=1000, workers=2)
    eventually(lambda: trains(bench, job) >= 2, PATIENCE, "it trains")
    dead = {node.node_id for node in bench.lab.api.nodes() if not node.alive}  # by an earlier test

    stand_still(bench.lab, STILL_SECONDS)

    before = trains(bench, job)
    eventually(lambda: trains(bench, job) >= before + 3, PATIENCE, "it trains on")
    lost = [node for node in bench.lab.api.nodes() if not node.alive and node.node_id not in dead]
    assert [node.reason for node in lost] == []
    assert bench.healthy()
    bench.lab.jobs.stop(job)


def test_a_head_that_died_comes_back_by_itself_without_its_jobs_and_says_so(bench: Bench) -> None:
    job = bench.digits(epochs=1000, workers=1)
    eventually(lambda: trains(bench, job) >= 1, PATIENCE, "it trains")
    leaders = bench.leaders()
    follower = bench.start("jobs", "logs", "-f", job)
    eventually(lambda: follower.written("out"), PATIENCE, "the job is followed")
    store = next(process for process in bench.processes().values() if process.name() == "gcs_server")

    os.kill(store.pid, signal.SIGKILL)

    eventually(lambda: not bench.healthy(), PATIENCE, "the head is down")

    def says_so() -> bool:
        head = bench.lab.status().service(HEAD)
        assert head is not None
        said = "it had died and was started again (2 starts): the cluster is a new one"
        assert said in head.detail, head.detail
        return bench.healthy()

    eventually(says_so, PATIENCE, "the lab is whole again, and says why it was not")
    assert bench.leaders() == leaders, "nobody but the nodes' own keepers started anything"
    ended = follower.end()
    assert ended.code == 9
    assert f"the head was lost, and with it job {job}" in ended.err
    bench.succeeds(bench.digits(epochs=1, workers=2))
