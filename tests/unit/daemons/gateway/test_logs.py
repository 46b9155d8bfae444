"""Logs of jobs: as far as they are, and followed over attempts and breaks."""

from __future__ import annotations

import pytest

from lab.daemons.gateway.upstream import UnansweredError
from tests.unit.daemons.gateway.classes import Class


def test_the_log_of_a_job_that_waits_says_why_and_then_goes_on(school: Class) -> None:
    for name in ("a", "b", "c"):
        school.submit("ann", name, work=5)
    school.world.run(5)
    texts = school.follow("ann", "c")
    assert texts[0].startswith("(queue) ")
    assert "ann" in texts[0]
    assert texts[-2:] == ["log of ann-c\n", "end of ann-c\n"]


def test_a_log_goes_on_with_the_next_attempt(school: Class) -> None:
    retry = {"limit": 2, "pause": 1, "failure_grace": 0}
    body = {
        "command": ["python", "x.py"],
        "name": "x",
        "workers": {"count": 1, "cpus": 1},
        "runtime_env": {"env_vars": {"WORK": "20", "GPUS": "0", "BREAKS": "1"}},
        "metadata": {"job_name": "x"},
        "retry": retry,
    }
    school.ok("ann", "POST", "/jobs", body)
    texts = school.follow("ann", "x")
    assert [text for text in texts if text.startswith("log of")] == ["log of ann-x\n", "log of ann-x-2\n"]
    assert school.status("ann", "x") == "SUCCEEDED"


def test_a_log_that_is_too_long_is_cut_and_says_so(school: Class) -> None:
    name = school.submit("ann", "x")
    school.world.run(5)
    school.ray.longest = 9
    (text,) = school.ok("ann", "GET", f"/api/jobs/{name}/logs").values()
    assert text.startswith("log of an\n(gateway) the log is too long")
    assert "ray job logs --follow" in text


def test_any_bytes_of_a_log_are_shown_and_only_its_end_if_that_is_asked_for(school: Class) -> None:
    name = school.submit("ann", "x")
    school.world.run(5)
    assert school.ok("ann", "GET", f"/api/jobs/{name}/logs?lines=5") == {"logs": "caf\ufffd\n"}


def test_an_error_of_ray_is_no_empty_log(school: Class) -> None:
    name = school.submit("ann", "x")
    school.world.run(5)
    school.ray.no_logs = "A file is not found at: /x.log"
    assert school.ok("ann", "GET", f"/api/jobs/{name}/logs") == {"logs": ""}
    school.ray.no_logs = "the disk is on fire"
    reply = school.ask("ann", "GET", f"/api/jobs/{name}/logs")
    assert (reply.status, reply.text) == (500, "the disk is on fire")


def test_the_log_of_a_job_that_never_ran_ends(school: Class) -> None:
    school.submit("ann", "x", work=1, metadata={"gpus_per_worker": "9", "job_name": "x"})
    school.world.run(5)
    assert school.ok("ann", "GET", "/api/jobs/x/logs") == {"logs": ""}
    school.ok("ann", "POST", "/api/jobs/x/stop")
    assert school.follow("ann", "x") == []


def test_a_silent_ray_is_waited_for_but_not_for_ever(school: Class) -> None:
    school.submit("ann", "x", work=5)
    school.world.run(5)
    school.ray.away = 5
    assert school.follow("ann", "x")[-1] == "end of ann-x\n"
    school.submit("ann", "y", work=1000)
    school.world.run(5)
    school.ray.away = 1000
    with pytest.raises(UnansweredError):
        school.follow("ann", "y")


def test_a_stream_that_breaks_is_taken_up_where_it_broke(school: Class) -> None:
    school.submit("ann", "x", work=5)
    school.world.run(5)
    school.ray.breaks = 3
    school.ray.pieces = 4  # a new stream may come in other pieces
    assert "".join(school.follow("ann", "x")) == "log of ann-x\nend of ann-x\n"


def test_silent_queues_are_waited_for_but_not_for_ever(school: Class) -> None:
    school.submit("ann", "x", work=5)
    school.world.run(5)
    school.queue.away = 5
    assert school.follow("ann", "x")[-1] == "end of ann-x\n"
    school.queue.away = 1000
    with pytest.raises(UnansweredError):
        school.follow("ann", "x")


def test_a_job_is_unknown_only_if_ray_says_so(school: Class) -> None:
    school.ray.ill = True
    assert school.ask("tom", "GET", "/api/jobs/never").status == 502
    school.submit("ann", "x", work=1000)
    school.world.run(5)
    with pytest.raises(UnansweredError):
        school.follow("ann", "x")
