"""The controller over HTTP: what is taken, what is refused and why, and that refusals change nothing."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kueue.writing import as_yaml
from lab.daemons.queue.packages import KEPT_SECONDS
from lab.daemons.queue.routes import Routes
from tests.unit.daemons.queue.world import SMALL, ControllerLab, priority, queue, unflavored

JOB = {"queue": "a", "command": ["python", "train.py"], "workers": {"count": 1, "gpus": 1}}
ZIP = b"PK\x05\x06" + bytes(18)
SHA = hashlib.sha256(ZIP).hexdigest()


def zip_of(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as written:
        written.writestr(name, content)
    return buffer.getvalue()


ZIP_OF_A = zip_of("train.py", b"a" * 100)


class Site:
    """The pages, asked without a network."""

    def __init__(self, world: ControllerLab) -> None:
        self.world, self.app = world, Routes(world.controller)

    def ask(self, method: str, path: str, body: Any = None, **environ: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        name, _, query = path.partition("?")
        asked = {
            "REQUEST_METHOD": method,
            "PATH_INFO": name,
            "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(data)),
            "wsgi.input": io.BytesIO(data),
            **environ,
        }
        status: list[str] = []
        answer = b"".join(self.app(asked, lambda line, headers: status.append(line)))
        return int(status[0][:3]), json.loads(answer) if answer else None

    def apply(self, *objects: dict[str, Any], **rest: Any) -> tuple[int, Any]:
        files = [{"name": "a.yaml", "text": as_yaml(objects)}]
        return self.ask("POST", "/apply", {"files": files, "namespace": "ns", **rest})

    def state(self) -> Any:
        """Everything that a refused request must leave as it is."""
        return [self.ask("GET", path)[1] for path in ("/workloads?status=all", "/objects", "/events")]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    world = ControllerLab(tmp_path)
    world.apply(*queue("a", 2), priority("high", 10))
    yield Site(world)
    world.close()


def test_a_job_is_taken_in_and_can_be_looked_at(site: Site) -> None:
    status, answer = site.ask(
        "POST", "/jobs", {**JOB, "priority_class": "high", "max_time": 89.5, "owner": "me"}
    )
    assert status == 201
    assert answer["workload"] == f"ns/{answer['submission_id']}"
    workload = site.world.controller.engine.items[answer["workload"]].workload
    assert (workload.priority, workload.max_execution, workload.queue) == (10, 90.0, "a")
    (pod_set,) = workload.pod_sets
    assert (pod_set.name, pod_set.count, pod_set.requests) == ("workers", 1, {"nvidia.com/gpu": 1})
    assert site.ask("GET", f"/workloads/{answer['workload']}")[1]["owner"] == "me"
    assert site.ask("GET", f"/workloads/*/{answer['submission_id']}/why")[0] == 200
    assert site.ask("GET", "/queues")[0] == 200


def test_a_job_has_the_name_that_it_was_given_unless_that_is_taken(site: Site) -> None:
    taken = {"workload": "ns/mine-1", "submission_id": "mine-1"}
    assert site.ask("POST", "/jobs", {**JOB, "name": "mine-1"}) == (201, taken)
    assert site.ask("POST", "/jobs", {**JOB, "name": "mine-02"})[0] == 201
    before = site.state()
    for name in ("mine-1", "mine", "mine-1-2", "mine-1-20270115"):
        status, answer = site.ask("POST", "/jobs", {**JOB, "name": name})
        assert status == 409
        message = f"the name {name} is taken: there is a job ns/mine-1"
        assert answer["error"]["message"] == message, "an attempt of one could have the id of the other"
    assert site.state() == before
    assert site.ask("POST", "/jobs", {**JOB, "name": ""})[1]["submission_id"].startswith("job-")


def test_a_name_that_is_taken_in_another_namespace_is_taken(site: Site) -> None:
    site.apply({**queue("a", 2)[2], "metadata": {"name": "a", "namespace": "other"}})
    assert site.ask("POST", "/jobs", {**JOB, "queue": "ns/a", "name": "mine"})[0] == 201
    assert site.ask("POST", "/jobs", {**JOB, "queue": "other/a", "name": "mine"})[0] == 409


def test_what_the_entrypoint_asks_for_is_a_pod_set_of_its_own(site: Site) -> None:
    _, answer = site.ask(
        "POST",
        "/jobs",
        {**JOB, "num_cpus": 1.5, "num_gpus": 0.5, "workers": {"count": 2, "cpus": 0.25, "memory": 5}},
    )
    pod_sets = site.world.controller.engine.items[answer["workload"]].workload.pod_sets
    assert [(pod_set.name, pod_set.count, pod_set.requests) for pod_set in pod_sets] == [
        ("driver", 1, {"cpu": 1500, "nvidia.com/gpu": 1}),
        ("workers", 2, {"cpu": 250, "memory": 5}),
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "/nothing", None, 404, "there is no page /nothing"),
        ("DELETE", "/jobs", None, 405, "/jobs takes POST, not DELETE"),
        ("POST", "/jobs", b"{", 400, "the request is not JSON"),
        ("POST", "/jobs", b"[1]", 400, "should be an object"),
        ("POST", "/jobs", b"\xff", 400, "the request is not JSON"),
        ("POST", "/jobs", b'"\\ud800"', 400, "the request is not JSON"),
        ("POST", "/jobs", b"[" * 100_000, 400, "nested too deeply"),
        ("POST", "/jobs", {"queue": "a"}, 400, "command is missing"),
        ("POST", "/jobs", {**JOB, "comand": 1}, 400, "comand"),
        ("POST", "/jobs", {**JOB, "name": "A_b"}, 400, "name"),
        ("POST", "/jobs", {**JOB, "name": "x" * 64}, 400, "name"),
        ("POST", "/jobs", {**JOB, "command": []}, 400, "command"),
        ("POST", "/jobs", {**JOB, "command": ["a\0b"]}, 400, "command"),
        ("POST", "/jobs", {**JOB, "num_gpus": -1}, 400, "num_gpus"),
        ("POST", "/jobs", b'{"queue":"a","command":["x"],"num_gpus":NaN}', 400, "not JSON compliant"),
        ("POST", "/jobs", {**JOB, "num_cpus": True}, 400, "num_cpus"),
        ("POST", "/jobs", {**JOB, "workers": {"count": 2, "min_count": 3}}, 400, "at most count, 2"),
        ("POST", "/jobs", {**JOB, "workers": {"count": 0}}, 400, "workers.count"),
        ("POST", "/jobs", {**JOB, "max_time": 0}, 400, "max_time"),
        ("POST", "/jobs", {**JOB, "queue": ""}, 400, "queue is missing"),
        ("POST", "/jobs", {**JOB, "queue": "", "retry": {}, "enforce": True}, 400, "enforce without a queue"),
        (
            "POST",
            "/jobs",
            {**JOB, "queue": "", "max_time": 9, "priority_class": "high"},
            400,
            "without a queue",
        ),
        (
            *("POST", "/jobs", {**JOB, "queue": "", "retry": {}, "workers": {"count": 2, "min_count": 1}}),
            *(400, "workers.min_count without a queue"),
        ),
        ("POST", "/jobs", {**JOB, "metadata": {"raylab_workload": "x"}}, 400, "raylab_workload"),
        ("POST", "/jobs", {**JOB, "runtime_env": {"env_vars": {"A": 1}}}, 400, "env_vars"),
        ("POST", "/jobs", {**JOB, "runtime_env": {"env_vars": ["A"]}}, 400, "env_vars: must be an object"),
        *(
            ("POST", "/jobs", {**JOB, "runtime_env": {"env_vars": {name: "x"}}}, 400, message)
            for name, message in (
                ("A\0", "the name 'A\\x00' has a control character"),
                ("A\n", "the name 'A\\n' has a control character"),
                ("\x7f", "has a control character"),
                ("", "'' cannot be the name of a variable"),
                ("A=B", "'A=B' cannot be the name of a variable"),
            )
        ),
        ("POST", "/jobs", {**JOB, "runtime_env": {"env_vars": {"A": "\0"}}}, 400, "env_vars.A: has a NUL"),
        (
            *("POST", "/jobs", {**JOB, "runtime_env": {"env_vars": {"A": "x" * 131_070}}}, 400),
            "env_vars.A: 131072 bytes with its name, above 131071",
        ),
        ("POST", "/jobs", {**JOB, "runtime_env": {"pip": ["a\0"]}}, 400, "runtime_env.pip[0]: has a NUL"),
        ("POST", "/jobs", {**JOB, "command": ["x" * 99_999] * 2}, 400, "the command: has 199999 bytes"),
        ("POST", "/jobs", {**JOB, "metadata": {"a\0": "x"}}, 400, "the name 'a\\x00'"),
        ("POST", "/jobs", {**JOB, "metadata": {"a": "\0"}}, 400, "metadata.a: has a NUL"),
        *(
            ("POST", "/jobs", {**JOB, name: "a\0"}, 400, f"{name}: has a NUL")
            for name in ("queue", "owner", "recipe", "ranks", "priority_class")
        ),
        ("POST", "/jobs", {**JOB, "name": "mine\n"}, 400, "should match pattern"),
        ("POST", "/jobs", {**JOB, "package": f"{SHA}\n"}, 400, "should match pattern"),
        ("POST", "/workloads/ns/none/cancel", {"message": "x" * 1001}, 400, "should have at most 1000"),
        ("POST", "/dry-run", {**JOB, "runtime_env": {"env_vars": {"A": "\0"}}}, 400, "has a NUL"),
        ("POST", "/jobs", {**JOB, "package": "../../x"}, 400, "package"),
        ("POST", "/jobs", {**JOB, "package": "0" * 64}, 404, "there is no package 0000"),
        ("POST", "/jobs", {**JOB, "queue": "b"}, 404, "there is no LocalQueue b"),
        ("POST", "/jobs", {**JOB, "queue": "other/a"}, 404, "there is no LocalQueue other/a"),
        ("POST", "/jobs", {**JOB, "priority_class": "hihg"}, 404, "there is no WorkloadPriorityClass hihg"),
        ("POST", "/dry-run", {**JOB, "queue": "b"}, 404, "there is no LocalQueue b"),
        ("POST", "/workloads/ns/none/cancel", {}, 404, "none"),
        ("POST", "/workloads/ns/none/explode", {}, 404, "no page"),
        ("POST", "/apply", {"files": []}, 400, "files"),
        ("POST", "/apply", {"files": [{"name": "a", "text": ""}], "namespace": "A_b"}, 400, "namespace"),
        ("POST", "/delete", {"objects": [{"kind": "ClusterQueue", "name": "z"}]}, 404, "no ClusterQueue z"),
        ("GET", "/events?since=x", None, 400, "since=x"),
        ("GET", "/workloads?limit=-1", None, 400, "limit=-1"),
        ("GET", "/workloads?status=odd", None, 400, "status 'odd'"),
        ("GET", "/packages/0000", None, 400, "is not a SHA-256"),
        ("PUT", f"/packages/{'0' * 64}", ZIP, 409, f"the package has SHA-256 {SHA}"),
        *(
            ("PUT", f"/packages/{hashlib.sha256(data).hexdigest()}", data, 400, "the package is")
            for data in (b"no zip", b"PK and no more", ZIP[:-1], ZIP_OF_A[:-30])
        ),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(
    site: Site, method: str, path: str, body: Any, status: int, message: str
) -> None:
    before = site.state()
    code, answer = site.ask(method, path, body)
    assert (code, message in answer["error"]["message"]) == (status, True), answer
    assert site.state() == before


def test_a_body_without_length_or_too_large_is_not_read(site: Site) -> None:
    assert site.ask("POST", "/jobs", b"{}", CONTENT_LENGTH="")[0] == 411
    assert site.ask("POST", "/jobs", b"{}", CONTENT_LENGTH=str(1 << 40))[0] == 413
    assert site.ask("POST", "/jobs", b"{}", CONTENT_LENGTH="30")[0] == 400


def test_a_package_is_kept_while_a_job_needs_it(site: Site) -> None:
    world = site.world
    assert site.ask("GET", f"/packages/{SHA}")[0] == 404
    assert site.ask("PUT", f"/packages/{SHA}", ZIP)[0] == 201
    assert site.ask("GET", f"/packages/{SHA}") == (204, None)
    world.clock.now += KEPT_SECONDS - 1
    world.controller.packages.sweep(set())
    world.submit("one", package=SHA, work=KEPT_SECONDS * 2)
    world.run(2)
    world.clock.now += KEPT_SECONDS + 60
    world.step()
    assert world.controller.packages.get(SHA) == ZIP
    world.clock.now += KEPT_SECONDS * 2
    world.settle()
    world.clock.now += KEPT_SECONDS + 60
    world.step()
    assert site.ask("GET", f"/packages/{SHA}")[0] == 404


# Quotas and queues


def test_objects_are_made_changed_and_left_alone(site: Site) -> None:
    status, answer = site.apply(*queue("a", 3), priority("high", 10), priority("low", -1))
    assert status == 200
    assert {(item["kind"], item["name"]): item["change"] for item in answer["objects"]} == {
        ("ResourceFlavor", "h100"): "unchanged",
        ("ClusterQueue", "a"): "configured",
        ("LocalQueue", "a"): "unchanged",
        ("WorkloadPriorityClass", "high"): "unchanged",
        ("WorkloadPriorityClass", "low"): "created",
    }
    kinds = [item["kind"] for item in site.ask("GET", "/objects")[1]]
    assert sorted(kinds) == [
        *("ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass", "WorkloadPriorityClass"),
    ]


def test_quotas_above_what_the_lab_has_are_warned_of(site: Site) -> None:
    assert site.ask("GET", "/queues")[1]["overcommitted"] == [], "two of two GPUs"
    site.world.ray.all_nodes = SMALL
    site.world.run(2)
    for dry_run in (True, False):
        (warning,) = site.apply(*unflavored(queue("b", 1)), dry_run=dry_run)[1]["warnings"]
        assert (warning["file"], warning["line"]) == ("a.yaml", 1)
        assert warning["message"] == (
            "quotas of nvidia.com/gpu add up to 3 (a 2, b 1), but the lab has 2: "
            "jobs can be admitted that find no room"
        )
        assert "labctl queue delete" in warning["hint"]
    (over,) = site.ask("GET", "/queues")[1]["overcommitted"]
    assert (over["resource"], over["quota"], over["capacity"]) == ("nvidia.com/gpu", 3, 2)
    assert over["message"] == warning["message"]
    assert site.apply(priority("low", 1))[1]["warnings"] == [], "these objects add nothing to it"
    assert site.apply(*unflavored(queue("b", 0)))[1]["warnings"] == []


def test_a_node_that_is_dead_for_now_is_no_reason_to_give_out_less(site: Site) -> None:
    ray = site.world.ray
    ray.all_nodes = (replace(SMALL[0], alive=False), *SMALL)
    site.world.run(2)
    assert site.world.controller.capacity == {"cpu": 16000, "nvidia.com/gpu": 2}


def test_a_dry_run_of_apply_changes_nothing(site: Site) -> None:
    before = site.state()
    status, answer = site.apply(*queue("b", 1), dry_run=True)
    assert (status, answer["objects"][1]["change"]) == (200, "created")
    assert site.state() == before


def test_a_configuration_that_is_kueues_own_takes_the_place_of_another(site: Site) -> None:
    waits = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    site.apply({**waits, "waitForPodsReady": {"timeout": "5m"}})
    assert site.world.controller.setup.config.pods_ready is not None
    assert site.apply(waits)[1]["objects"][0]["change"] == "configured"
    assert site.world.controller.setup.config.pods_ready is None


def test_wrong_objects_are_refused_as_a_whole(site: Site) -> None:
    before = site.state()
    wrong = queue("b", 1)
    wrong[1]["spec"]["cohort"] = "x"
    moved = {**queue("a", 2)[2], "spec": {"clusterQueue": "b"}}
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w"},
        "spec": {"podSets": [{"count": 1}]},
    }
    status, answer = site.apply(*unflavored(wrong), moved, workload)
    assert status == 422
    problems = {problem["message"]: problem for problem in answer["error"]["problems"]}
    assert len(problems) == 3
    unknown = problems["unknown field"]
    assert (unknown["file"], unknown["path"]) == ("a.yaml", "spec.cohort")
    assert unknown["line"] > 1
    assert "did you mean cohortName?" in unknown["hint"]
    assert any("spec.clusterQueue is immutable: it is a, not b" in problem for problem in problems)
    assert any("Workload ns/w: a Workload cannot be applied" in problem for problem in problems)
    assert site.state() == before


def test_what_is_used_is_not_deleted(site: Site) -> None:
    site.world.submit("one")
    before = site.state()
    key = site.world.job("one").key
    for kind, namespace, users in (
        ("ResourceFlavor", "", "ClusterQueue a"),
        ("ClusterQueue", "", f"LocalQueue ns/a, job {key}"),
        ("LocalQueue", "ns", f"job {key}"),
    ):
        name = "h100" if kind == "ResourceFlavor" else "a"
        status, answer = site.ask(
            "POST", "/delete", {"objects": [{"kind": kind, "namespace": namespace, "name": name}]}
        )
        assert status == 409
        assert f"is used by {users}; nothing was deleted" in answer["error"]["message"]
    assert site.state() == before


def test_all_of_a_queue_can_be_deleted_at_once(site: Site) -> None:
    objects = [
        {"kind": "ResourceFlavor", "name": "h100"},
        {"kind": "ClusterQueue", "name": "a"},
        {"kind": "LocalQueue", "namespace": "ns", "name": "a"},
    ]
    status, answer = site.ask("POST", "/delete", {"objects": objects})
    assert status == 200
    assert {item["change"] for item in answer["objects"]} == {"deleted"}
    assert [item["kind"] for item in site.ask("GET", "/objects")[1]] == ["WorkloadPriorityClass"]


def test_a_name_in_two_namespaces_needs_its_namespace(site: Site) -> None:
    other = {**queue("a", 2)[2], "metadata": {"name": "a", "namespace": "other"}}
    site.apply(other)
    status, answer = site.ask("POST", "/jobs", JOB)
    assert status == 400
    assert "several namespaces: ns/a, other/a" in answer["error"]["message"]
    assert site.ask("POST", "/jobs", {**JOB, "queue": "other/a"})[0] == 201


def test_a_finished_job_takes_no_orders(site: Site) -> None:
    site.world.submit("one", work=1)
    site.world.settle()
    key = site.world.job("one").key
    for verb in ("cancel", "deactivate", "activate"):
        status, answer = site.ask("POST", f"/workloads/{key}/{verb}", {})
        assert (status, "has ended" in answer["error"]["message"]) == (409, True)


def test_events_can_be_asked_from_where_one_stopped(site: Site) -> None:
    site.world.submit("one", work=1)
    site.world.settle()
    every = site.ask("GET", "/events")[1]
    assert [event["event"] for event in every][-2:] == ["Admitted", "Finished"]
    assert site.ask("GET", f"/events?since={every[-2]['number']}")[1] == every[-1:]


def test_a_gpu_of_amd_has_its_own_name() -> None:
    from lab.daemons.queue.__main__ import gpu_resource

    assert gpu_resource({"RAYLAB_GPU": "amd"}) == "amd.com/gpu"
    assert [gpu_resource({"RAYLAB_GPU": vendor}) for vendor in ("nvidia", "simulated", "none")] == [
        "nvidia.com/gpu"
    ] * 3


def test_two_controllers_do_not_share_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lab.daemons.queue import __main__ as program
    from lab.host.files import make_private, take_lock

    environ = {
        "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:2",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }
    with take_lock(make_private(tmp_path) / program.LOCK):
        code = program.main(["--listen", "127.0.0.1:0", "--folder", str(tmp_path)], environ, patience=0.0)
    assert code == 11
    assert "another controller works in" in capsys.readouterr().err
