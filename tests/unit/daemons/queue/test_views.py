"""Documents of the queues: their public shape, and what they say."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from kueue.model import LocalQueue, PreemptionPolicy
from lab.api.base import plain
from lab.api.queue import Attempt
from lab.daemons.queue import views
from lab.errors import NotFoundError, UsageError
from tests.unit.daemons.queue.reading import NOW, State
from tests.unit.kueue.made import job, queue, running, setup

ROW = {
    "workload", "namespace", "name", "job_name", "recipe", "command", "owner", "local_queue", "cluster_queue",
    "priority", "priority_class", "status", "phase", "reason", "message", "waits",
    "position_in_cluster_queue", "position_in_local_queue", "created", "admitted_at", "finished_at",
    "executed", "attempts", "submission_id", "takes_more",
}  # fmt: skip


def classroom() -> State:
    """One GPU, which ann holds; ben and cem wait, and dia has finished."""
    return State(
        setup(queue("a", 1)),
        job("dia", "a", 1, created=1.0, finished="Succeeded"),
        running("ann", "a", 1, at=900.0, created=2.0, max_execution=600.0),
        job("ben", "a", 1, created=3.0),
        job("cem", "a", 1, created=4.0),
        ann={"owner": "ann", "metadata": {"job_name": "sweep"}},
        dia={"attempts": (Attempt(1, "dia", 10.0, ended_at=70.0, ended="SUCCEEDED"),)},
    )


def names(state: State, **asked: object) -> list[str]:
    """The names in a list."""
    return [workload["name"] for workload in plain(views.workloads(state, **asked))["workloads"]]  # type: ignore[arg-type]


def test_the_list_has_those_that_run_then_those_that_wait_then_the_finished() -> None:
    state = classroom()
    assert names(state) == ["ann", "ben", "cem"]
    assert names(state, status="all") == ["ann", "ben", "cem", "dia"]
    assert names(state, status="pending") == ["ben", "cem"]
    assert names(state, status="admitted") == ["ann"]
    assert names(state, status="finished") == ["dia"]


def test_a_row_has_its_fields() -> None:
    state = classroom()
    view = plain(views.workloads(state))
    first, second, third = view["workloads"]
    assert all(set(row) == ROW for row in (first, second, third))
    assert (first["status"], first["executed"], first["job_name"], first["submission_id"]) == (
        "Admitted", 100.0, "sweep", "ann",
    )  # fmt: skip
    assert (second["reason"], second["position_in_cluster_queue"]) == ("WaitingForQuota", 0)
    assert (third["reason"], third["position_in_local_queue"]) == ("WaitingForQuota", 1)
    assert view["total"] == 3


def test_a_limit_cuts_the_rows_and_not_the_total() -> None:
    view = plain(views.workloads(classroom(), limit=1))
    assert ([workload["name"] for workload in view["workloads"]], view["total"]) == (["ann"], 3)


def test_a_list_of_one_queue() -> None:
    doors = {(space, "default"): LocalQueue(space, "default", "a") for space in ("ann", "ben")}
    given = setup(queue("a", 1), local_queues=doors)
    two = (replace(job("x", "default", 1), namespace=space) for space in ("ann", "ben"))
    state = State(given, *two)
    assert len(names(state, queue="default")) == 2
    assert len(names(state, queue="ben/default")) == 1
    with pytest.raises(NotFoundError, match="eva/default"):
        plain(views.workloads(state, queue="eva/default"))


def test_wrong_wishes_are_refused() -> None:
    with pytest.raises(UsageError, match="status 'odd'"):
        plain(views.workloads(classroom(), status="odd"))


def test_a_job_is_found_without_its_namespace_and_by_its_attempts() -> None:
    state = classroom()
    again = (Attempt(1, "ann", 1.0), Attempt(2, "ann-2", 2.0))
    state.records["ns/ann"] = replace(
        state.records["ns/ann"], job=replace(state.records["ns/ann"].job, attempts=again)
    )
    for key in ("ns/ann", "*/ann", "*/ann-2"):
        assert plain(views.describe(state, key))["workload"] == "ns/ann"
    for key in ("ns/eva", "*/eva", "ns/ann-2"):
        with pytest.raises(NotFoundError) as caught:
            plain(views.describe(state, key))
        assert "ns/cem" in caught.value.hint


def test_describe_tells_requests_grants_attempts_and_events() -> None:
    view = plain(views.describe(classroom(), "ns/ben"))
    assert set(view) > ROW
    assert view["pod_sets"] == [
        {"name": "main", "count": 1, "min_count": None, "requests": {"nvidia.com/gpu": 1}}
    ]
    assert [event["event"] for event in view["events"]] == ["Pending"]
    granted = plain(views.describe(classroom(), "ns/ann"))["granted"]
    assert granted == [
        {"name": "main", "count": 1, "flavors": {"nvidia.com/gpu": "h100"}, "usage": {"nvidia.com/gpu": 1}}
    ]


def test_why_names_the_holder_the_place_and_the_time() -> None:
    view = plain(views.why(classroom(), "ns/cem"))
    (holder,) = view["holders"]
    assert (holder["workload"], holder["job_name"], holder["owner"], holder["since"]) == (
        "ns/ann", "sweep", "ann", 900.0,
    )  # fmt: skip
    assert holder["usage"] == {"h100": {"nvidia.com/gpu": 1}}
    assert view["missing"] == [{"flavor": "h100", "resource": "nvidia.com/gpu", "missing": 1, "asked": 1}]
    assert (view["position_in_cluster_queue"], view["of_cluster_queue"], view["ahead"]) == (
        1,
        2,
        ["ns/ben"],
    )
    assert view["forecast"]["at"] == 1560.0
    assert view["forecast"]["ends"] == [
        {"workload": "ns/ann", "at": 1500.0, "length": 600.0, "basis": "time limit", "jobs": 0},
        {"workload": "ns/ben", "at": 1560.0, "length": 60.0, "basis": "usual time", "jobs": 1},
    ]


def test_why_of_one_that_does_not_wait_has_no_forecast() -> None:
    view = plain(views.why(classroom(), "ns/ann"))
    assert (view["status"], view["forecast"], view["holders"]) == ("Admitted", None, [])


def test_a_look_ahead_changes_nothing() -> None:
    state = classroom()
    before = plain(views.workloads(state))
    plain(views.why(state, "ns/cem"))
    plain(views.dry_run(state, job("new", "a", 1, created=NOW)))
    assert plain(views.workloads(state)) == before


def test_a_dry_run_of_what_would_wait() -> None:
    view = plain(views.dry_run(classroom(), job("new", "a", 1, created=NOW)))
    assert (view["status"], view["reason"], view["position_in_cluster_queue"]) == (
        "Pending", "WaitingForQuota", 2,
    )  # fmt: skip
    assert view["forecast"]["unknown"] == []
    assert view["forecast"]["at"] == 1620.0


def test_a_dry_run_of_what_would_preempt() -> None:
    given = setup(queue("a", 1, preemption=PreemptionPolicy("LowerPriority")))
    state = State(given, running("ann", "a", 1, at=900.0))
    view = plain(views.dry_run(state, job("new", "a", 1, created=NOW, priority=9)))
    assert (view["status"], view["preempts"]) == ("Admitted", ["ns/ann"])


def test_a_dry_run_of_what_is_too_big() -> None:
    view = plain(views.dry_run(classroom(), job("new", "a", 2, created=NOW)))
    assert (view["reason"], view["forecast"]["why_not"]) == ("ExceedsMaxQuota", "never")


def test_queues_tell_quota_usage_and_who_waits() -> None:
    state = State(
        setup(queue("a", 1, "all"), queue("b", (2, 1, 1), "all")),
        running("one", "a", 2, at=900.0),
        job("two", "b", 2, created=1.0),
    )
    view = plain(views.queues(state))
    a, b = view["cluster_queues"]
    assert (a["pending"], a["admitted"], a["weighted_share"], b["pending"]) == (0, 1, 500, 1)
    assert a["flavors"][0] == {
        "flavor": "h100", "resource": "nvidia.com/gpu", "nominal": 1, "quota": 1, "used": 2, "borrowed": 1,
        "available": 0, "borrowing_limit": None, "lending_limit": None,
    }  # fmt: skip
    assert (b["flavors"][0]["borrowing_limit"], b["flavors"][0]["lending_limit"]) == (1, 1)
    assert view["local_queues"][1]["pending"] == 1
    assert view["cohorts"][0]["name"] == "all"


def test_a_long_list_is_made_quickly() -> None:
    waiting = (job(f"j{number}", "a", 1, created=float(number)) for number in range(2_000))
    state = State(setup(queue("a", 1)), running("ann", "a", 1, at=900.0), *waiting)
    began = time.process_time()
    text = json.dumps(plain(views.workloads(state)))
    assert time.process_time() - began < 1.0
    assert len(text) > 2_000 * 100
