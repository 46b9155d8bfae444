"""The queues' API with each person's rights: what labctl asks there."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from lab.errors import RefusedError
from lab.host.http import REFUSED_HEADER
from tests.unit.daemons.gateway.classes import Class, local_queue
from tests.unit.daemons.queue.test_routes import ZIP_OF_A

JOB: dict[str, Any] = {
    "command": ["python", "x.py"],
    "metadata": {"job_name": "x"},
    "workers": {"count": 1, "cpus": 1},
    "runtime_env": {"env_vars": {"WORK": "9", "GPUS": "0"}},
}


@pytest.mark.parametrize("queue", ["", "default", "ann/default"])
def test_a_job_goes_into_her_own_queue(school: Class, queue: str) -> None:
    accepted = school.ok("ann", "POST", "/jobs", {**JOB, "queue": queue, "owner": "ben"})
    assert accepted["workload"].startswith("ann/ann-")
    record = school.world.controller.records[accepted["workload"]]
    assert record.job.owner == "ann"
    assert (
        record.job.runtime_env["env_vars"]["AWS_ACCESS_KEY_ID"] == school.registry.get("ann").key.access_key
    )


@pytest.mark.parametrize("path", ["/jobs", "/dry-run"])
def test_nobody_elses_queue(school: Class, path: str) -> None:
    reply = school.ask("ann", "POST", path, {**JOB, "queue": "ben/default"})
    assert reply.status == 403
    assert reply.json()["error"]["code"] == RefusedError.exit_code
    assert reply.json()["error"]["message"] == "queue ben/default is ben's"
    assert reply.headers == {REFUSED_HEADER: "1"}
    assert school.ask("tom", "POST", path, {**JOB, "queue": "ben/default"}).status < 300


def test_nobody_but_a_teacher_has_more_unfinished_jobs_than_a_limit(
    school: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.daemons.gateway.access.MOST_JOBS", 2)
    for name in ("ann", "tom"):
        for job in ("first", "second"):
            school.ok(name, "POST", "/jobs", {**JOB, "name": job})
    reply = school.ask("ann", "POST", "/jobs", {**JOB, "name": "third"})
    assert reply.status == 429
    error = reply.json()["error"]
    assert (error["code"], "ann has 2 jobs in queue ann/default" in error["message"]) == (11, True)
    assert "labctl jobs stop" in error["hint"]
    reply = school.ask("ann", "POST", "/api/jobs/", {"entrypoint": "true"})
    assert (reply.status, "have not ended" in reply.text, "ray job stop" in reply.text) == (429, True, True)
    school.ok("ben", "POST", "/jobs", {**JOB, "name": "x"})
    school.ok("tom", "POST", "/jobs", {**JOB, "name": "third"})

    school.ok("ann", "POST", "/workloads/ann/ann-first/cancel", {})
    assert school.ok("ann", "POST", "/jobs", {**JOB, "name": "third"})["workload"] == "ann/ann-third"


def test_a_queue_that_is_not_there(school: Class) -> None:
    reply = school.ask("ann", "POST", "/jobs", {**JOB, "queue": "fast"})
    assert (reply.status, reply.json()["error"]["message"]) == (404, "there is no LocalQueue ann/fast")


def test_a_list_shows_all_names_and_her_own_commands(school: Class) -> None:
    school.ok("ann", "POST", "/jobs", {**JOB, "name": "x"})
    school.ok("ben", "POST", "/jobs", {**JOB, "name": "x"})
    rows = {row["name"]: row for row in school.ok("ann", "GET", "/workloads?status=all")["workloads"]}
    assert rows["ann-x"]["command"] == "python x.py"
    assert rows["ben-x"]["command"] == ""
    assert (rows["ben-x"]["job_name"], rows["ben-x"]["status"]) == ("x", "Pending")
    assert set(rows["ben-x"]) == set(rows["ann-x"])
    assert school.ask("ann", "GET", "/workloads?status=odd").status == 400


@pytest.mark.parametrize("space", ["ann", "*"])
def test_details_are_her_own(school: Class, space: str) -> None:
    school.ok("ann", "POST", "/jobs", {**JOB, "name": "x"})
    for page in ("", "/why"):
        path = f"/workloads/{space}/ann-x{page}"
        assert school.ok("ann", "GET", path)["workload"] == "ann/ann-x"
        assert school.ask("ben", "GET", path).status == 403
        assert school.ok("eva", "GET", path)["workload"] == "ann/ann-x"
    assert school.ok("ann", "GET", "/workloads/*/x")["workload"] == "ann/ann-x"
    assert school.ask("ben", "GET", "/workloads/*/x").status == 404


@pytest.mark.parametrize("verb", ["cancel", "deactivate"])
def test_orders_are_for_her_own(school: Class, verb: str) -> None:
    school.ok("ann", "POST", "/jobs", {**JOB, "name": "x"})
    school.world.run(5)
    for person in ("ben", "eva"):
        assert school.ask(person, "POST", f"/workloads/*/ann-x/{verb}", {}).status == 403
    assert school.ok("ann", "POST", f"/workloads/*/x/{verb}", {})["workload"] == "ann/ann-x"


def test_whose_token_it_is(school: Class) -> None:
    assert school.ok("ann", "GET", "/person") == {"name": "ann", "role": "student"}
    assert school.ok("tom", "GET", "/person") == {"name": "tom", "role": "teacher"}


def test_packages(school: Class) -> None:
    path = f"/packages/{hashlib.sha256(ZIP_OF_A).hexdigest()}"
    assert school.ask("ann", "GET", path).status == 404
    assert school.ask("ann", "PUT", path, ZIP_OF_A).status == 201
    assert school.ask("ann", "GET", path).status == 204


@pytest.mark.parametrize("path", ["/queues", "/objects", "/events?since=0"])
def test_queues_are_seen_by_all(school: Class, path: str) -> None:
    assert school.ask("ann", "GET", path).status == 200


def test_what_a_job_printed_is_in_no_event_of_others(school: Class) -> None:
    school.ok("ann", "POST", "/jobs", {**JOB, "name": "x"})
    school.world.run(5)
    with school.world.controller.change() as draft:
        draft.tell("Finished", "ann/ann-x", "Failed", "the end of the log")
        draft.tell("Finished", "lab/y", "Failed", "of the lab")
        draft.tell("NodeClosed", "", "Unhealthy", "ray-worker-1 takes no new work")
    for path in ("/events", "/events?workload=ann/ann-x", "/events?workload=ann%2Fann-x"):
        assert "the end of the log" not in school.ask("ben", "GET", path).text
        for person in ("ann", "eva", "tom"):
            assert "the end of the log" in school.ask(person, "GET", path).text
    (event,) = [one for one in school.ok("ben", "GET", "/events") if one["event"] == "NodeClosed"]
    assert event["message"] == "ray-worker-1 takes no new work"
    (event,) = [one for one in school.ok("ben", "GET", "/events") if one["workload"] == "lab/y"]
    assert (event["reason"], event["message"]) == ("Failed", "")


@pytest.mark.parametrize(
    "path",
    ["/workloads/%2e%2e/health", "/workloads/ann/%2e%2E", "/workloads/ann/%2e/why", "/workloads/ann/x%2Fwhy"],
)
def test_no_name_leads_to_another_page(school: Class, path: str) -> None:
    assert school.ask("ann", "GET", path).status == 404


@pytest.mark.parametrize("path", ["/workloads/ann/\udcff", "/events?workload=\udcff"])
def test_letters_that_are_not_escaped(school: Class, path: str) -> None:
    assert school.ask("ann", "GET", path).status == 400


def test_a_query_goes_on_as_it_came(school: Class) -> None:
    reply = school.ask("ann", "GET", "/workloads?status=all&queue=ann%26limit%3D0")
    assert "no LocalQueue ann&limit=0" in reply.json()["error"]["message"]


def test_queues_are_changed_by_who_teaches(school: Class) -> None:
    text = json.dumps(local_queue("new"))
    change = {"files": [{"name": "a.yaml", "text": text}], "namespace": "new"}
    for person in ("ann", "eva"):
        reply = school.ask(person, "POST", "/apply", change)
        assert (reply.status, "may not change queues" in reply.text) == (403, True)
        for path in ("/delete", "/health/symptom"):
            assert school.ask(person, "POST", path, {}).status == 403
    assert school.ok("tom", "POST", "/apply", change)["objects"][0]["change"] == "created"
    gone = {"objects": [{"kind": "LocalQueue", "namespace": "new", "name": "default"}]}
    assert school.ok("tom", "POST", "/delete", gone)


def test_what_nodes_report_does_not_come_through_here(school: Class) -> None:
    assert school.ask("tom", "POST", "/health/report", {}).status == 404


@pytest.mark.parametrize("body", [{"queue": 1}, {"name": ["x"]}, {"runtime_env": 1}, {"name": "\ud800"}])
def test_odd_requests(school: Class, body: dict[str, Any]) -> None:
    assert school.ask("ann", "POST", "/jobs", {**JOB, **body}).status == 400
