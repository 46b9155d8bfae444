"""Ray's Jobs API before the queues: jobs go through their owner's queue, and others' are closed."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import Any

import pytest

from lab.cluster.helpers import HELPER
from lab.daemons.gateway.upstream import Reply
from lab.host.http import REFUSED_HEADER
from tests.unit.daemons.gateway.classes import Class
from tests.unit.daemons.queue.test_routes import ZIP_OF_A

FOLDER: dict[str, Any] = {
    "runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip", "env_vars": {"WORK": "3", "GPUS": "0"}}
}


def test_a_job_goes_through_its_owners_queue(school: Class) -> None:
    name = school.submit("ann", "first")
    assert name == "ann-first"
    item = school.world.controller.engine.items["ann/ann-first"]
    assert item.workload.queue == "default"
    assert school.world.controller.records["ann/ann-first"].job.owner == "ann"
    assert school.status("ann", name) == "PENDING"
    school.world.run(5)
    assert school.status("ann", name) == "RUNNING"
    school.world.settle()
    assert school.status("ann", name) == "SUCCEEDED"


def test_a_job_without_a_name_begins_with_its_owners(school: Class) -> None:
    assert school.submit("ann").startswith("ann-")
    assert school.submit("ann", "ann-x") == "ann-x"


def test_two_people_may_use_one_name(school: Class) -> None:
    assert (school.submit("ann", "same"), school.submit("ben", "same")) == ("ann-same", "ben-same")
    assert school.ok("ann", "GET", "/api/jobs/same")["submission_id"] == "ann-same"
    assert school.ok("ben", "GET", "/api/jobs/same")["submission_id"] == "ben-same"


def test_a_name_is_used_once(school: Class) -> None:
    school.submit("ann", "x")
    body = {"entrypoint": "true", "submission_id": "x"}
    reply = school.ask("ann", "POST", "/api/jobs/", body)
    assert (reply.status, "the name ann-x is taken" in reply.text) == (409, True)


def test_a_job_has_its_owners_key_and_no_other(school: Class) -> None:
    name = school.submit("ann", "x")
    school.world.run(5)
    variables = school.world.ray.jobs[name].order.runtime_env["env_vars"]
    ann = school.registry.get("ann")
    assert variables["AWS_ACCESS_KEY_ID"] == ann.key.access_key
    assert variables["AWS_SECRET_ACCESS_KEY"] == ann.key.secret_key
    assert variables["AWS_SHARED_CREDENTIALS_FILE"] == "/dev/null"
    assert variables["RAYLAB_STORAGE"] == "s3://ray/people/ann"


@pytest.mark.parametrize("person", ["ann", "ben", "eva", "tom"])
def test_nobody_is_shown_a_key_by_the_gateway(school: Class, person: str) -> None:
    name = school.submit("ann", "x")
    school.world.run(5)
    secret = school.registry.get("ann").key.secret_key.encode()
    for path in (f"/api/jobs/{name}", "/api/jobs/", "/workloads?status=all", f"/workloads/ann/{name}"):
        assert secret not in school.ask(person, "GET", path).data


def test_what_everybody_sees_of_a_job(school: Class) -> None:
    name = school.submit("ann", "x")
    school.world.run(5)
    for job in (school.ok("ben", "GET", f"/api/jobs/{name}"), school.ok("ben", "GET", "/api/jobs/")[0]):
        assert (job["submission_id"], job["status"]) == (name, "RUNNING")
        assert job["metadata"] == {"raylab_workload": "ann/ann-x"}
        assert (job["entrypoint"], job["message"], job["runtime_env"]) == ("", None, {})
    own = school.ok("ann", "GET", f"/api/jobs/{name}")
    assert own["entrypoint"] == "python train.py --fast"
    assert own["runtime_env"]["env_vars"]["WORK"] == "9"
    assert own["metadata"]["job_name"] == "x"


OTHERS = [
    ("GET", "/api/jobs/ann-x/logs"),
    ("POST", "/api/jobs/ann-x/stop"),
    ("DELETE", "/api/jobs/ann-x"),
]


@pytest.mark.parametrize(("method", "path"), OTHERS)
def test_this_job_is_anns(school: Class, method: str, path: str) -> None:
    school.submit("ann", "x", work=100)
    school.world.run(5)
    school.ray.asked.clear()
    reply = school.ask("ben", method, path)
    assert reply.status == 403
    assert reply.text.startswith("this job is ann's")
    assert reply.headers == {REFUSED_HEADER: "1"}
    assert all(asked[0] == "GET" for asked in school.ray.asked)
    assert school.status("ann", "x") == "RUNNING"


def test_an_assistant_reads_all_and_a_teacher_does_all(school: Class) -> None:
    school.submit("ann", "x", work=100)
    school.world.run(5)
    assert school.ok("eva", "GET", "/api/jobs/ann-x/logs") == {"logs": "log of ann-x\n"}
    assert school.ask("eva", "POST", "/api/jobs/ann-x/stop").status == 403
    assert school.ok("tom", "POST", "/api/jobs/ann-x/stop") == {"stopped": True}
    school.world.settle()
    assert school.status("ann", "ann-x") == "STOPPED"


def test_her_own_job_is_stopped_whether_it_waits_or_runs(school: Class) -> None:
    for name in ("a", "b", "c"):
        school.submit("ann", name, work=100)
    school.world.run(5)
    assert [school.status("ann", name) for name in "abc"] == ["RUNNING", "RUNNING", "PENDING"]
    assert school.ok("ann", "POST", "/api/jobs/c/stop") == {"stopped": True}
    assert school.ok("ann", "POST", "/api/jobs/ann-a/stop") == {"stopped": True}
    school.world.run(5)
    assert [school.status("ann", name) for name in "abc"] == ["STOPPED", "RUNNING", "STOPPED"]
    assert school.ok("ann", "POST", "/api/jobs/c/stop") == {"stopped": False}
    assert "ann-c" not in school.world.ray.submitted


def test_a_job_is_deleted_once_it_has_ended(school: Class) -> None:
    school.submit("ann", "x")
    school.world.run(5)
    reply = school.ask("ann", "DELETE", "/api/jobs/x")
    assert (reply.status, "has not ended" in reply.text) == (400, True)
    school.world.settle()
    assert school.ok("ann", "DELETE", "/api/jobs/x") == {"deleted": True}
    assert ("DELETE", "/api/jobs/ann-x") in school.ray.asked


def test_jobs_past_the_queues_are_the_labs(school: Class) -> None:
    alien = {"type": "SUBMISSION", "submission_id": "sub-1", "status": "RUNNING", "entrypoint": "secret"}
    driver = {"type": "DRIVER", "submission_id": None, "job_id": "01", "status": "RUNNING"}
    school.ray.more = {"sub-1": alien, "01": {**driver, "entrypoint": "secret"}}
    listed = school.ok("ann", "GET", "/api/jobs/")
    assert [(job["submission_id"], job["entrypoint"]) for job in listed] == [("sub-1", "")]
    assert len(school.ok("tom", "GET", "/api/jobs/")) == 2
    for method, path in (("GET", "/logs"), ("POST", "/stop"), ("DELETE", "")):
        reply = school.ask("ann", method, f"/api/jobs/sub-1{path}")
        assert (reply.status, reply.text.startswith("this job is the lab's")) == (403, True)
        school.ok("tom", method, f"/api/jobs/sub-1{path}")
    assert school.ok("ann", "GET", "/api/jobs/sub-1")["entrypoint"] == ""


def test_helper_jobs_of_labctl_are_in_no_list(school: Class) -> None:
    helper = {"type": "SUBMISSION", "submission_id": f"{HELPER}0123", "status": "SUCCEEDED"}
    school.ray.more = {f"{HELPER}0123": {**helper, "entrypoint": "python -c ..."}}
    assert school.ok("tom", "GET", "/api/jobs/") == []


def forgotten(school: Class) -> dict[str, Any]:
    """A job of ann's of which the queues know nothing any more."""
    key = school.registry.get("ann").key
    return {
        "type": "SUBMISSION",
        "submission_id": "ann-old",
        "status": "SUCCEEDED",
        "entrypoint": "secret",
        "metadata": {"raylab_workload": "ann/ann-old"},
        "driver_node_id": "node-1",
        "runtime_env": {"env_vars": {"A": "1", "AWS_SECRET_ACCESS_KEY": key.secret_key, "AWS_X": "y"}},
    }


def test_a_job_that_the_queues_have_forgotten_is_its_owners(school: Class) -> None:
    school.ray.more = {"ann-old": forgotten(school)}
    for person, shown in (("ann", "secret"), ("ben", ""), ("eva", "secret"), ("tom", "secret")):
        (listed,) = school.ok(person, "GET", "/api/jobs/")
        for job in (listed, school.ok(person, "GET", "/api/jobs/ann-old")):
            assert job["entrypoint"] == shown
            assert job["runtime_env"] == ({"env_vars": {"A": "1"}} if shown else {})
    for person in ("ben", "eva"):
        reply = school.ask(person, "DELETE", "/api/jobs/ann-old")
        assert (reply.status, reply.text.startswith("this job is ann's")) == (403, True)
    assert school.ok("ann", "GET", "/api/jobs/ann-old/logs") == {"logs": "log of ann-old\n"}
    school.ok("ann", "DELETE", "/api/jobs/ann-old")


def test_attempts_have_the_rights_of_their_job(school: Class) -> None:
    waits = school.submit("ann", "waits", work=99, entrypoint_num_cpus=9)
    name = school.submit("ann", "x", work=99)
    school.world.run(5)

    def ask(person: str, path: str) -> Reply:
        asked = replace(school.asked(person, "GET", path), attempts=True)
        return asyncio.run(school.routes.answer(asked))

    (own,) = ask("ann", "/api/jobs/").json()
    assert own == ask("ann", f"/api/jobs/{name}").json()
    assert (own["submission_id"], own["message"]) == (name, "as Ray says it")
    assert school.registry.get("ann").key.access_key not in str(own)
    (closed,) = ask("ben", "/api/jobs/").json()
    assert (closed["submission_id"], closed["status"], closed["entrypoint"]) == (name, "RUNNING", "")
    assert ask("ann", f"/api/jobs/{name}/logs").json() == {"logs": f"log of {name}\n"}
    assert (ask("ben", f"/api/jobs/{name}/logs").status, ask("ann", f"/api/jobs/{waits}").status) == (
        403,
        404,
    )


def test_keys_of_who_was_removed_are_not_shown(school: Class) -> None:
    job = forgotten(school)
    school.ray.more = {"ann-old": job}
    school.registry.forget("ann")
    assert school.ok("tom", "GET", "/api/jobs/ann-old")["runtime_env"] == {"env_vars": {"A": "1"}}


@pytest.mark.parametrize("name", ["%2e", "%2E%2e", "a%2Fb", "%00"])
@pytest.mark.parametrize("page", ["", "/logs"])
def test_no_name_leads_to_another_page_of_rays(school: Class, name: str, page: str) -> None:
    assert school.ask("tom", "GET", f"/api/jobs/{name}{page}").status == 404
    assert school.ray.asked == []


def test_a_name_is_escaped_once(school: Class) -> None:
    assert school.ask("tom", "GET", "/api/jobs/a%2520b%3Fc/logs").status == 404
    assert ("GET", "/api/jobs/a%2520b%3Fc") in school.ray.asked


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("GET", "/logs"), ("POST", "/stop"), ("DELETE", "")]
)
def test_no_such_job(school: Class, method: str, path: str) -> None:
    assert school.ask("ann", method, f"/api/jobs/never{path}").status == 404


def test_the_working_folder_is_kept_by_the_queues(school: Class) -> None:
    path = "/api/packages/gcs/_ray_pkg_1.zip"
    assert school.ask("ann", "GET", path).status == 404
    school.ok("ann", "PUT", path, ZIP_OF_A)
    assert school.ask("ann", "GET", path).status == 200
    name = school.submit("ann", "x", **FOLDER)
    record = school.world.controller.records[f"ann/{name}"]
    assert record.job.package == hashlib.sha256(ZIP_OF_A).hexdigest()
    assert "working_dir" not in record.job.runtime_env


def test_a_folder_of_somebody_else_is_not_hers(school: Class) -> None:
    path = "/api/packages/gcs/_ray_pkg_1.zip"
    school.ok("ben", "PUT", path, ZIP_OF_A)
    assert school.ask("ann", "GET", path).status == 404
    reply = school.ask("ann", "POST", "/api/jobs/", {"entrypoint": "true", **FOLDER})
    assert (reply.status, "was not sent" in reply.text) == (400, True)


def test_what_is_no_zip_is_refused(school: Class) -> None:
    reply = school.ask("ann", "PUT", "/api/packages/gcs/a.zip", b"no zip")
    assert (reply.status, "not a zip file" in reply.text) == (400, True)


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "entrypoint must be a command"),
    ({"entrypoint": " "}, "entrypoint must be a command"),
    ({"entrypoint": 1}, "entrypoint must be a command"),
    ({"entrypoint": "true", "submission_id": 1}, "submission_id a string"),
    ({"entrypoint": "true", "submission_id": "A_b"}, "name"),
    ({"entrypoint": "true", "metadata": {"a": 1}}, "metadata must be an object"),
    ({"entrypoint": "true", "metadata": {"workers": "many"}}, "metadata.workers: 'many' is not a number"),
    ({"entrypoint": "true", "runtime_env": []}, ""),
    ({"entrypoint": "true", "runtime_env": {"env_vars": []}}, ""),
    ({"entrypoint": "true", "runtime_env": {"env_vars": {"A": 1}}}, "env_vars"),
    ({"entrypoint": "true", "runtime_env": {"py_modules": ["gcs://a.zip"]}}, "py_modules"),
    ({"entrypoint": "true", "runtime_env": {"py_modules": 1}}, "py_modules: must be a list"),
    ({"entrypoint": "true", "metadata": {"queue": "\ud800/default"}}, "half a character"),
    ({"entrypoint": "true", "entrypoint_resources": {"x": 1}}, "entrypoint_resources: no quota counts that"),
    ({"entrypoint": "true", "entrypoint_memory": 5}, "entrypoint_memory"),
    ({"entrypoint": "true", "entrypoint_num_cpus": -1}, "num_cpus"),
    ({"entrypoint": "true", "entrypoint_num_cpus": "1"}, "num_cpus"),
]


@pytest.mark.parametrize(("body", "why"), BAD)
def test_what_no_queue_can_hold_is_refused(school: Class, body: dict[str, Any], why: str) -> None:
    if body.get("runtime_env") == [] or (body.get("runtime_env") or {}).get("env_vars") == []:
        school.ok("ann", "POST", "/api/jobs/", body)  # nothing is given, in an odd way
        return
    reply = school.ask("ann", "POST", "/api/jobs/", body)
    assert reply.status == 400
    assert why in reply.text
    assert not school.world.controller.records


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"1", b"\xff", b'"a"'])
def test_what_is_no_json_is_refused(school: Class, data: bytes) -> None:
    assert school.ask("ann", "POST", "/api/jobs/", data).status == 400


@pytest.mark.parametrize(
    ("entrypoint", "command"),
    [
        ("python a.py --x=1", ("python", "a.py", "--x=1")),
        ("python 'a b.py'", ("python", "a b.py")),
        ("python a.py && echo $HOME", ("bash", "-c", "python a.py && echo $HOME")),
        ("echo 'open", ("bash", "-c", "echo 'open")),
        ("A=1 python a.py", ("A=1", "python", "a.py")),  # Ray joins and hands it to a shell
    ],
)
def test_a_shells_command_stays_one(school: Class, entrypoint: str, command: tuple[str, ...]) -> None:
    school.submit("ann", "x", entrypoint=entrypoint)
    assert school.world.controller.records["ann/ann-x"].job.command == command


def test_what_a_job_takes(school: Class) -> None:
    def takes(name: str) -> dict[str, Any]:
        sets = school.ok("ann", "GET", f"/workloads/ann/ann-{name}")["pod_sets"]
        return {one["name"]: (one["count"], one["requests"]) for one in sets}

    school.submit("ann", "a")
    school.submit("ann", "b", entrypoint_num_gpus=1)
    school.submit("ann", "c", metadata={"workers": "2", "gpus_per_worker": "1", "job_name": "c"})
    assert takes("a") == {"workers": (1, {"cpu": 1})}
    assert takes("b") == {"driver": (1, {"nvidia.com/gpu": 1})}
    assert takes("c") == {"workers": (2, {"nvidia.com/gpu": 1})}


def test_another_persons_queue_is_the_teachers_alone(school: Class) -> None:
    body = {"entrypoint": "true", "metadata": {"queue": "ben/default"}}
    reply = school.ask("ann", "POST", "/api/jobs/", body)
    assert (reply.status, reply.text) == (403, "queue ben/default is ben's (who may: teacher)")
    assert school.ask("eva", "POST", "/api/jobs/", body).status == 403
    assert school.ok("tom", "POST", "/api/jobs/", body)["submission_id"].startswith("tom-")


def test_who_was_removed_leaves_jobs_to_the_lab(school: Class) -> None:
    school.submit("ann", "x", work=100)
    school.registry.forget("ann")
    assert school.ask("ben", "POST", "/api/jobs/ann-x/stop").text.startswith("this job is the lab's")
    assert school.ok("tom", "POST", "/api/jobs/ann-x/stop") == {"stopped": True}


def test_rays_lists(school: Class) -> None:
    assert school.ok("ann", "GET", "/api/v0/nodes?detail=1") == {"path": "/api/v0/nodes?detail=1"}
    assert school.ask("ann", "GET", "/api/v0/actors").status == 403
    assert school.ok("eva", "GET", "/api/v0/actors?limit=1") == {"path": "/api/v0/actors?limit=1"}
    for kind in ("runtime_envs", "jobs", "workers", "objects"):
        assert school.ask("tom", "GET", f"/api/v0/{kind}?detail=1").status == 404
    assert school.ok("ann", "GET", "/api/version") == {"path": "/api/version"}


def test_rays_lists_have_no_runtime_environment(school: Class) -> None:
    row = {"state": "ALIVE", "serialized_runtime_env": "key", "runtime_env_info": {"serialized": "key"}}
    school.ray.lists["/api/v0/actors"] = {"data": {"result": {"result": [row], "total": 1}}}
    listed = school.ok("eva", "GET", "/api/v0/actors?detail=1")
    assert listed == {"data": {"result": {"result": [{"state": "ALIVE"}], "total": 1}}}


@pytest.mark.parametrize(
    "path", ["/", "/api/", "/api/jobs", "/logs", "/api/serve/applications/", "/metrics", "/api/v0/logs/file"]
)
def test_nothing_else_of_ray_is_reached(school: Class, path: str) -> None:
    assert school.ask("tom", "GET", path).status == 404
    assert school.ray.asked == []


def test_a_wrong_method(school: Class) -> None:
    reply = school.ask("ann", "PATCH", "/api/jobs/x")
    assert (reply.status, reply.text) == (405, "/api/jobs/x takes GET and DELETE")
