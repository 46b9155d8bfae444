"""A head that is down, and jobs that died with it: what is said, and when nobody waits any longer."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from lab.cluster.api import ApiReply, RayApi
from lab.cluster.jobs import Jobs
from lab.cluster.outage import LOOK_SECONDS, LOST_SECONDS, SAID_SECONDS, Outage
from lab.errors import ClusterError, HeadDownError, JobError
from tests.fakes.host import FakeClock

DOWN = HeadDownError("the head is down: Ray's dashboard takes no connection")
SILENT = ClusterError("no answer in time")
HEAD_NODE = "h" * 56


class Dashboard(RayApi):
    """A head with one job, `j1`; `trouble` is raised in place of every answer."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("http://127.0.0.1:1", "")
        self._clock = clock
        self.status: str | None = "RUNNING"
        self.dead_heads: list[str] = []
        self.trouble: Callable[[], ClusterError | None] = lambda: None
        self.asked: list[str] = []

    def request(self, method: str, path: str, *, body: Any = None, timeout: float = 0) -> ApiReply:
        self.asked.append(path)
        if (trouble := self.trouble()) is not None:
            raise trouble
        if path.startswith("/api/v0/logs/file"):
            return ApiReply(200, b"one\n")
        if path.startswith("/api/v0/nodes"):
            return self._reply({"data": {"result": {"result": [_node(head) for head in self.dead_heads]}}})
        if self.status is None:
            return ApiReply(404, b"not there") if path != "/api/jobs/" else self._reply([])
        row = {"submission_id": "j1", "status": self.status, "driver_node_id": HEAD_NODE}
        return self._reply([row] if path == "/api/jobs/" else row)

    def _reply(self, document: Any) -> ApiReply:
        return ApiReply(200, json.dumps(document).encode())


def _node(node_id: str) -> dict[str, Any]:
    return {"node_id": node_id, "node_name": "ray-head", "state": "DEAD", "end_time_ms": 5000}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(0.0)


@pytest.fixture
def dashboard(clock: FakeClock) -> Dashboard:
    return Dashboard(clock)


def between(
    clock: FakeClock, begin: float, end: float, error: ClusterError
) -> Callable[[], ClusterError | None]:
    return lambda: error if begin <= clock.now < end else None


def test_who_follows_a_job_hears_within_ten_seconds_that_the_head_is_down(
    clock: FakeClock, dashboard: Dashboard
) -> None:
    said: list[tuple[float, str]] = []
    dashboard.trouble = between(clock, 20.0, 1e9, DOWN)
    jobs = Jobs(dashboard, clock=clock)

    with pytest.raises(HeadDownError):
        list(jobs.follow("j1", on_outage=lambda text: said.append((clock.now, text))))

    ((at, text),) = said
    assert "the head is down" in text
    assert SAID_SECONDS <= at - 20.0 < 10.0
    assert clock.now - 20.0 <= LOST_SECONDS + 2


def test_a_head_that_is_started_again_meanwhile_is_waited_for_and_the_job_followed_on(
    clock: FakeClock, dashboard: Dashboard
) -> None:
    said: list[str] = []
    dashboard.trouble = between(clock, 20.0, 35.0, DOWN)
    clock.after(60.0, lambda: setattr(dashboard, "status", "SUCCEEDED"))

    assert list(Jobs(dashboard, clock=clock).follow("j1", on_outage=said.append)) == ["one"]
    assert [text.partition(":")[0] for text in said] == ["the head is down", "the head answers again"]


def test_a_head_that_is_slow_or_away_for_a_moment_is_not_said_to_be_down(
    clock: FakeClock, dashboard: Dashboard
) -> None:
    said: list[str] = []
    short, slow = between(clock, 20.0, 23.0, DOWN), between(clock, 40.0, 60.0, SILENT)
    dashboard.trouble = lambda: short() or slow()
    clock.after(80.0, lambda: setattr(dashboard, "status", "SUCCEEDED"))

    assert list(Jobs(dashboard, clock=clock).follow("j1", on_outage=said.append)) == ["one"]
    assert said == []


def test_a_job_that_the_new_head_does_not_know_was_lost_with_the_old_one(
    clock: FakeClock, dashboard: Dashboard
) -> None:
    clock.after(20.0, lambda: setattr(dashboard, "status", None))
    with pytest.raises(JobError, match="j1"):
        list(Jobs(dashboard, clock=clock).follow("j1"))
    assert clock.now < 25.0


def test_a_job_whose_driver_died_with_a_head_has_failed_although_ray_says_that_it_runs(
    clock: FakeClock, dashboard: Dashboard
) -> None:
    jobs = Jobs(dashboard, clock=clock)
    assert not jobs.get("j1").lost
    dashboard.dead_heads = [HEAD_NODE]
    clock.sleep(LOOK_SECONDS)

    for job in (jobs.get("j1"), jobs.list()[0]):
        assert (job.status, job.lost, job.final, job.ended_at) == ("FAILED", True, True, 5.0)
        assert "the head was lost, and with it job j1" in job.message


def test_a_job_that_ended_before_its_head_died_ended_as_it_did(
    clock: FakeClock, dashboard: Dashboard
) -> None:
    dashboard.status, dashboard.dead_heads = "SUCCEEDED", [HEAD_NODE]
    assert Jobs(dashboard, clock=clock).get("j1").status == "SUCCEEDED"


def test_the_nodes_are_looked_at_now_and_then_only(clock: FakeClock, dashboard: Dashboard) -> None:
    jobs = Jobs(dashboard, clock=clock)
    for _ in range(40):
        jobs.get("j1")
        clock.sleep(0.25)
    looks = [path for path in dashboard.asked if path.startswith("/api/v0/nodes")]
    assert len(looks) == 2


def test_an_outage_that_comes_back_is_said_again(clock: FakeClock) -> None:
    said: list[str] = []
    outage = Outage(clock, said.append)
    for _ in range(2):
        for _ in range(20):
            outage.hear(DOWN)
            clock.sleep(0.5)
        assert outage.seconds == 10.0
        outage.hear("an answer")
        assert outage.seconds == 0.0
    assert len(said) == 4


def test_an_address_that_takes_no_connection_is_a_head_that_is_down_and_one_that_is_silent_is_not() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(HeadDownError, match=url):
            RayApi(url, "").get("/api/version")
        taken.listen()
        with pytest.raises(ClusterError) as caught:
            RayApi(url, "").get("/api/version", timeout=0.05)
        assert not isinstance(caught.value, HeadDownError)
