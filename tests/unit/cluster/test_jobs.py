"""Jobs against a scripted Jobs API: submit, list, follow, wait, stop, and what is refused beforehand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import helpers
from lab.cluster import jobs as jobs_module
from lab.cluster.api import ApiReply, RayApi
from lab.cluster.jobs import Jobs
from lab.cluster.outage import LOST_SECONDS
from lab.cluster.packing import package
from lab.cluster.submission import Submission
from lab.errors import ClusterError, NotFoundError, RefusedError, UsageError, WaitTimeoutError
from lab.host.clock import POLL_SECONDS
from tests.fakes.host import FakeClock


class Turns:
    """Answers to give in turn; the last one stays."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def next(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class FakeApi(RayApi):
    """A Jobs API with one answer, or Turns, per `METHOD /path`; a tuple is (status, answer)."""

    def __init__(self, routes: dict[str, Any]) -> None:
        super().__init__("http://127.0.0.1:1", "")
        self.routes = routes
        self.asked: list[tuple[str, Any]] = []

    def request(self, method: str, path: str, *, body: Any = None, timeout: float = 0) -> ApiReply:
        key = f"{method} {path}"
        self.asked.append((key, body))
        answer = self.routes.get(key, (404, "not there"))
        if isinstance(answer, Turns):
            answer = answer.next()
        status, document = answer if isinstance(answer, tuple) else (200, answer)
        return ApiReply(
            status, document.encode() if isinstance(document, str) else json.dumps(document).encode()
        )

    def bodies(self, key: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == key]


def job(submission_id: str = "j1", status: str = "RUNNING", **changes: Any) -> dict[str, Any]:
    return {
        "submission_id": submission_id,
        "status": status,
        "entrypoint": "python train.py",
        "start_time": 1000,
        "metadata": {},
        "driver_node_id": "n1",
        **changes,
    }


LOG = "GET /api/v0/logs/file?node_id=n1&filename=job-driver-j1.log&lines=-1"
LAST = LOG.replace("-1", "10")


def jobs_with(routes: dict[str, Any]) -> tuple[Jobs, FakeApi, FakeClock]:
    api, clock = FakeApi(routes), FakeClock(0.0)
    return Jobs(api, clock=clock), api, clock


def test_a_submission_is_quoted_and_remembers_what_it_asks_for() -> None:
    jobs, api, _ = jobs_with({"POST /api/jobs/": {"submission_id": "raysubmit_1"}})

    submission_id = jobs.submit(
        Submission(("python", "my train.py"), num_cpus=0.5, num_gpus=1, metadata={"raylab_recipe": "digits"})
    )

    assert submission_id == "raysubmit_1"
    assert api.bodies("POST /api/jobs/") == [
        {
            "entrypoint": "python 'my train.py'",
            "runtime_env": {},
            "metadata": {"raylab_cpus": "0.5", "raylab_gpus": "1", "raylab_recipe": "digits"},
            "entrypoint_num_cpus": 0.5,
            "entrypoint_num_gpus": 1,
        }
    ]


def test_what_is_not_asked_for_is_not_sent() -> None:
    jobs, api, _ = jobs_with({"POST /api/jobs/": {"submission_id": "mine"}})

    jobs.submit(Submission(("true",), submission_id="mine"))

    assert set(api.bodies("POST /api/jobs/")[0]) == {"entrypoint", "runtime_env", "metadata", "submission_id"}


def test_a_refusal_gives_the_last_line_of_rays_reason() -> None:
    jobs, _, _ = jobs_with({"POST /api/jobs/": (500, "Traceback ...\n  File\nValueError: j1 exists\n\n")})

    with pytest.raises(UsageError, match="ValueError: j1 exists"):
        jobs.submit(Submission(("true",)))


def test_a_working_directory_is_uploaded_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")

    class Packages(FakeApi):
        stored = False

        def request(self, method: str, path: str, *, body: Any = None, timeout: float = 0) -> ApiReply:
            if path.startswith("/api/packages/gcs/_ray_pkg_"):
                self.asked.append((method, body))
                there, self.stored = self.stored, self.stored or method == "PUT"
                return ApiReply(200 if there or method == "PUT" else 404, b"")
            return super().request(method, path, body=body, timeout=timeout)

    api = Packages({"POST /api/jobs/": {"submission_id": "j"}})
    for _ in range(2):
        Jobs(api).submit(Submission(("true",), working_dir=tmp_path, runtime_env={"env_vars": {"A": "1"}}))

    assert [method for method, _ in api.asked if method in ("GET", "PUT")] == ["GET", "PUT", "GET"]
    environments = [body["runtime_env"] for body in api.bodies("POST /api/jobs/")]
    assert environments[0] == environments[1]
    assert environments[0]["env_vars"] == {"A": "1"}
    assert environments[0]["working_dir"].startswith("gcs://_ray_pkg_")


def test_a_working_directory_that_ray_does_not_take_is_an_error(tmp_path: Path) -> None:
    class NoPackages(FakeApi):
        def request(self, method: str, path: str, *, body: Any = None, timeout: float = 0) -> ApiReply:
            return ApiReply(500 if method == "PUT" else 404, b"no room")

    with pytest.raises(ClusterError, match="no room"):
        Jobs(NoPackages({})).submit(Submission(("true",), working_dir=tmp_path))


def test_jobs_are_listed_newest_first_without_drivers_that_were_not_submitted() -> None:
    rows = [job("old", start_time=1), job("new", start_time=9000), job(""), job("waiting", start_time=None)]
    jobs, _, _ = jobs_with({"GET /api/jobs/": rows})

    assert [j.submission_id for j in jobs.list()] == ["new", "old", "waiting"]


def test_a_job_is_read_in_seconds_with_what_it_asked_for() -> None:
    row = job(
        status="FAILED",
        end_time=3500,
        message="exit 1",
        driver_node_id="n",
        driver_exit_code=1,
        metadata={"raylab_cpus": "2", "raylab_gpus": "0.5", "raylab_recipe": "digits"},
    )
    jobs, _, _ = jobs_with({"GET /api/jobs/j1": row})

    reported = jobs.get("j1")

    assert (reported.started_at, reported.ended_at, reported.exit_code, reported.node_id) == (
        1.0,
        3.5,
        1,
        "n",
    )
    assert (reported.num_cpus, reported.num_gpus, reported.recipe, reported.final) == (
        2.0,
        0.5,
        "digits",
        True,
    )


def test_an_unknown_job_names_the_latest_ones() -> None:
    jobs, _, _ = jobs_with({"GET /api/jobs/": [job(f"j{i}", start_time=i) for i in range(1, 8)]})

    with pytest.raises(NotFoundError, match="no job 'nope'") as caught:
        jobs.get("nope")
    assert caught.value.hint == "see `labctl jobs`; latest: j7, j6, j5, j4, j3"


def test_a_driver_that_was_not_submitted_is_no_job() -> None:
    routes = {"GET /api/jobs/01000000": job("") | {"submission_id": None}, "GET /api/jobs/": []}
    jobs, _, _ = jobs_with(routes)

    with pytest.raises(NotFoundError) as caught:
        jobs.get("01000000")
    assert caught.value.hint == "see `labctl jobs`; latest: none"


def test_a_job_that_may_not_be_there_is_none_without_a_list_of_all() -> None:
    jobs, api, _ = jobs_with({"GET /api/jobs/j1": job(driver_node_id=None)})
    assert jobs.find("j2") is None
    reported = jobs.find("j1")
    assert reported is not None
    assert reported.submission_id == "j1"
    assert [asked for asked, _ in api.asked] == ["GET /api/jobs/j2", "GET /api/jobs/j1"]


def test_a_working_directory_can_be_a_zip() -> None:
    data = b"PK as it was"
    name = f"_ray_pkg_{hashlib.sha256(data).hexdigest()[:16]}.zip"
    path = f"/api/packages/gcs/{name}"
    jobs, api, _ = jobs_with({f"PUT {path}": {}, "POST /api/jobs/": {"submission_id": "j1"}})
    jobs.submit(Submission(("python", "a.py")), data)
    assert api.bodies(f"PUT {path}") == [data]
    assert api.bodies("POST /api/jobs/")[0]["runtime_env"] == {"working_dir": f"gcs://{name}"}


def test_modules_are_sent_and_addresses_stay(tmp_path: Path) -> None:
    (tmp_path / "mylib").mkdir()
    (tmp_path / "mylib" / "__init__.py").touch()
    wheel = tmp_path / "a b-1-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    data = package(tmp_path / "mylib", parent="mylib")
    name = f"_ray_pkg_{hashlib.sha256(data).hexdigest()[:16]}.zip"
    puts = (f"PUT /api/packages/gcs/{name}", "PUT /api/packages/gcs/a%20b-1-py3-none-any.whl")
    jobs, api, _ = jobs_with({**dict.fromkeys(puts, ""), "POST /api/jobs/": {"submission_id": "j1"}})
    modules = [tmp_path / "mylib", wheel, "s3://x/y.zip"]
    jobs.submit(Submission(("true",), runtime_env={"py_modules": modules}))
    assert [api.bodies(put) for put in puts] == [[data], [b"wheel"]]
    sent = api.bodies("POST /api/jobs/")[0]["runtime_env"]["py_modules"]
    assert sent == [f"gcs://{name}", "gcs://a b-1-py3-none-any.whl", "s3://x/y.zip"]


def test_what_is_left_out_by_the_environment_is_not_uploaded(tmp_path: Path) -> None:
    for file in ("train.py", "x.log"):
        (tmp_path / file).touch()
    name = f"_ray_pkg_{hashlib.sha256(package(tmp_path, ['*.log'])).hexdigest()[:16]}.zip"
    jobs, api, _ = jobs_with({f"PUT /api/packages/gcs/{name}": "", "POST /api/jobs/": {"submission_id": "j"}})
    jobs.submit(Submission(("true",), tmp_path, runtime_env={"excludes": ["*.log"]}))
    assert api.bodies("POST /api/jobs/")[0]["runtime_env"]["working_dir"] == f"gcs://{name}"


def test_a_job_id_cannot_reach_another_path() -> None:
    jobs, api, _ = jobs_with({"GET /api/jobs/": []})

    with pytest.raises(NotFoundError):
        jobs.get("../../api/version?x")
    assert api.asked[0][0] == "GET /api/jobs/..%2F..%2Fapi%2Fversion%3Fx"


def test_a_broken_answer_for_a_job_is_a_cluster_error() -> None:
    jobs, _, _ = jobs_with({"GET /api/jobs/j1": (500, "")})

    with pytest.raises(ClusterError, match="no reason given"):
        jobs.get("j1")


def test_following_yields_whole_lines_and_the_rest_at_the_end() -> None:
    states = Turns(job(), job(), job(status="SUCCEEDED"))
    logs = Turns("one\ntw", "one\ntwo\nthr", "one\ntwo\nthree")
    jobs, _, clock = jobs_with({"GET /api/jobs/j1": states, LOG: logs})

    assert list(jobs.follow("j1")) == ["one", "two", "three"]
    assert clock.now == 2 * POLL_SECONDS


def test_who_follows_a_job_sees_it_at_every_look_also_while_it_prints_nothing() -> None:
    states = Turns(job(driver_node_id=None), job(), job(status="SUCCEEDED"))
    jobs, _, _ = jobs_with({"GET /api/jobs/j1": states, LOG: ""})
    seen: list[str] = []

    assert list(jobs.follow("j1", lambda job: seen.append(job.status))) == []
    assert seen == ["RUNNING", "RUNNING", "SUCCEEDED"]
    assert not jobs.logs("j1")


def test_everything_has_drivers_that_were_not_submitted_and_the_list_has_not() -> None:
    notebook = {**job("j0"), "type": "DRIVER", "submission_id": None, "job_id": "04000000"}
    trained = {**job("interactive-looking"), "job_id": "05000000"}
    jobs, _, _ = jobs_with({"GET /api/jobs/": [notebook, trained, {**job("j2"), "job_id": None}]})

    assert {(j.submission_id, j.driver_id) for j in jobs.everything()} == {
        ("interactive-04000000", "04000000"),
        ("interactive-looking", "05000000"),
        ("j2", ""),
    }
    assert {j.submission_id for j in jobs.list()} == {"interactive-looking", "j2"}


@pytest.mark.parametrize("rows", [[{"submission_id": "a"}], [3], 3, None])
def test_a_list_of_an_unknown_shape_is_a_cluster_error(rows: Any) -> None:
    jobs, _, _ = jobs_with({"GET /api/jobs/": rows})
    with pytest.raises(ClusterError, match="list of jobs"):
        jobs.list()


def test_following_shows_no_line_twice_when_the_log_is_gone_for_a_moment() -> None:
    states = Turns(job(), job(), job(), job(status="FAILED"))
    logs = Turns("one\n", (500, "busy"), (500, GONE), "one\ntwo\n")
    jobs, _, _ = jobs_with({"GET /api/jobs/j1": states, LOG: logs})

    assert list(jobs.follow("j1")) == ["one", "two"]


GONE = "Agent for node id: NodeID(n1) doesn't exist."


def test_following_says_that_a_log_is_gone_with_its_node() -> None:
    routes = {"GET /api/jobs/j1": Turns(job(), job(), job(status="FAILED")), LOG: Turns("one\n", (500, GONE))}
    jobs, _, _ = jobs_with(routes)
    said: list[str] = []
    assert list(jobs.follow("j1", on_outage=said.append)) == ["one"]
    assert said == ["the log of job j1 is gone with the node that its driver ran on"]
    with pytest.raises(NotFoundError, match="gone with the node"):
        jobs.logs("j1")


def test_an_error_of_the_server_is_no_empty_log() -> None:
    error = (500, "Traceback\nRuntimeError: the disk is on fire\n")
    jobs, _, clock = jobs_with({"GET /api/jobs/j1": job(), LOG: error})
    for read in (jobs.logs, lambda name: list(jobs.follow(name))):
        with pytest.raises(ClusterError, match="the disk is on fire"):
            read("j1")
    assert clock.now == LOST_SECONDS


def test_following_bears_a_job_that_is_not_known_yet_but_not_for_long() -> None:
    log = {LOG: "one\n", "GET /api/jobs/": []}
    unknown = (404, "not there")
    appears = Turns(unknown, unknown, job(), job(status="SUCCEEDED"))
    jobs, _, _ = jobs_with({**log, "GET /api/jobs/j1": appears})
    assert list(jobs.follow("j1", appears_within=20)) == ["one"]

    jobs, _, clock = jobs_with({**log, "GET /api/jobs/j1": unknown})
    with pytest.raises(NotFoundError):
        list(jobs.follow("j1", appears_within=20))
    assert clock.now == 20
    with pytest.raises(NotFoundError):
        list(jobs.follow("j1"))
    assert clock.now == 20


def test_following_ends_in_time_with_the_last_lines() -> None:
    jobs, _, clock = jobs_with({"GET /api/jobs/j1": job(), LOG: "one\ntw", LAST: "one\ntw"})
    lines = jobs.follow("j1", timeout=5)
    assert next(lines) == "one"
    with pytest.raises(WaitTimeoutError, match="one\ntw"):
        next(lines)
    assert clock.now == 5


def test_waiting_ends_with_the_job() -> None:
    jobs, _, clock = jobs_with({"GET /api/jobs/j1": Turns(job(), job(), job(status="SUCCEEDED"))})

    assert jobs.wait("j1", 60).status == "SUCCEEDED"
    assert clock.now == 2 * POLL_SECONDS


def test_waiting_too_long_shows_the_last_ten_lines() -> None:
    text = "".join(f"line {i}\n" for i in range(20))
    jobs, _, clock = jobs_with({"GET /api/jobs/j1": job(), LAST: text})

    with pytest.raises(WaitTimeoutError, match=r"j1 .*RUNNING after 5 s") as caught:
        jobs.wait("j1", 5)
    assert clock.now >= 5
    assert "line 10\n" in caught.value.message
    assert "line 9\n" not in caught.value.message


def test_waiting_bears_a_dashboard_that_is_silent_for_a_while_but_not_for_good() -> None:
    jobs, api, clock = jobs_with({})
    answers = [ClusterError("silent"), ClusterError("silent"), job(status="SUCCEEDED")]

    def request(method: str, path: str, *, body: Any = None, timeout: float = 0) -> ApiReply:
        answer = answers.pop(0) if answers else ClusterError("silent for good")
        if isinstance(answer, ClusterError):
            raise answer
        return ApiReply(200, json.dumps(answer).encode())

    api.request = request  # type: ignore[method-assign]

    assert jobs.wait("j1", 100).status == "SUCCEEDED"
    with pytest.raises(ClusterError, match="for good"):
        jobs.wait("j1", 100)
    assert clock.now <= LOST_SECONDS + 2


def test_stopping_waits_for_the_end_and_leaves_an_ended_job_alone() -> None:
    stop = "POST /api/jobs/j1/stop"
    routes = {"GET /api/jobs/j1": Turns(job(), job(), job(status="STOPPED")), stop: {"stopped": True}}
    jobs, api, _ = jobs_with(routes)
    assert jobs.stop("j1").status == "STOPPED"
    assert len(api.bodies(stop)) == 1

    assert jobs.stop("j1").status == "STOPPED"
    assert len(api.bodies(stop)) == 1


def test_a_job_that_cannot_be_stopped_is_an_error() -> None:
    jobs, _, _ = jobs_with({"GET /api/jobs/j1": job(), "POST /api/jobs/j1/stop": (500, "agent is gone")})

    with pytest.raises(ClusterError, match="j1: agent is gone"):
        jobs.stop("j1")


WAITING = (*[job(status="PENDING")] * 8, job(status="FAILED"))
HELPER = {
    "POST /api/jobs/j1/stop": {"stopped": True},
    "POST /api/jobs/": {"submission_id": "helper"},
}


def test_a_job_that_waits_for_resources_gives_up_its_place_when_it_is_stopped() -> None:
    done = job("helper", status="SUCCEEDED")
    jobs, api, clock = jobs_with(
        {**HELPER, "GET /api/jobs/j1": Turns(*WAITING), "GET /api/jobs/helper": done}
    )
    assert jobs.stop("j1").status == "FAILED"
    assert clock.now == jobs_module.START_GRACE_SECONDS
    assert [body["entrypoint"].split()[-1] for body in api.bodies("POST /api/jobs/")] == ["j1"]
    assert api.bodies("POST /api/jobs/")[0]["submission_id"].startswith(helpers.HELPER)


def test_helpers_are_not_listed() -> None:
    jobs, _, _ = jobs_with({"GET /api/jobs/": [job(f"{helpers.HELPER}1"), job("j1")]})
    assert [one.submission_id for one in jobs.list()] == ["j1"]
    assert [one.submission_id for one in jobs.everything()] == ["j1"]


def test_a_job_that_starts_while_it_is_stopped_needs_no_help() -> None:
    turns = Turns(job(status="PENDING"), job(status="PENDING"), job(), job(status="STOPPED"))
    jobs, api, _ = jobs_with({**HELPER, "GET /api/jobs/j1": turns})
    assert jobs.stop("j1").status == "STOPPED"
    assert api.bodies("POST /api/jobs/") == []


def test_a_waiting_job_whose_place_cannot_be_given_up_is_an_error() -> None:
    failed = job("helper", status="FAILED", message="no such actor")
    waiting = job(status="PENDING")
    jobs, _, _ = jobs_with({**HELPER, "GET /api/jobs/j1": waiting, "GET /api/jobs/helper": failed})
    with pytest.raises(ClusterError, match="j1: no such actor"):
        jobs.stop("j1")


GROUPS = "GET /api/v0/placement_groups?detail=1&limit=10000"


def groups(*rows: tuple[str, str, str]) -> dict[str, Any]:
    keys = ("placement_group_id", "creator_job_id", "state")
    return {"data": {"result": {"result": [dict(zip(keys, row, strict=True)) for row in rows]}}}


OTHERS = (("aa", "07", "CREATED"), ("bb", "02", "REMOVED"))


def test_what_ray_gives_back_by_itself_after_a_stop_is_only_waited_for() -> None:
    turns = Turns(job(job_id="02"), job(status="STOPPED", job_id="02"))
    reserved = Turns(groups(*OTHERS, ("cc", "02", "CREATED")), groups(*OTHERS))
    jobs, api, clock = jobs_with({**HELPER, "GET /api/jobs/j1": turns, GROUPS: reserved})
    assert jobs.stop("j1").status == "STOPPED"
    assert clock.now == POLL_SECONDS
    assert api.bodies("POST /api/jobs/") == []


@pytest.mark.parametrize("state", ["PENDING", "CREATED"])
def test_what_ray_forgets_to_give_back_is_given_back_also_for_a_job_that_ended_before(state: str) -> None:
    done = job("helper", status="SUCCEEDED")
    ended = job(status="STOPPED", job_id="02")
    left = groups(*OTHERS, ("cc", "02", state))
    jobs, api, clock = jobs_with(
        {**HELPER, "GET /api/jobs/j1": ended, "GET /api/jobs/helper": done, GROUPS: left}
    )
    assert jobs.stop("j1").status == "STOPPED"
    assert clock.now >= jobs_module.RELEASE_SECONDS
    assert [body["entrypoint"].split()[-1] for body in api.bodies("POST /api/jobs/")] == ["cc"]


def test_what_cannot_be_given_back_is_an_error_with_the_way_out() -> None:
    failed = job("helper", status="FAILED")
    ended = job(status="STOPPED", job_id="02")
    left = groups(("cc", "02", "CREATED"))
    jobs, _, _ = jobs_with(
        {**HELPER, "GET /api/jobs/j1": ended, "GET /api/jobs/helper": failed, GROUPS: left}
    )
    with pytest.raises(ClusterError, match="still reserves") as caught:
        jobs.stop("j1")
    assert "labctl restart ray-head" in caught.value.hint


# The working directory


SENT = "gcs://_ray_pkg_0123456789abcdef.zip"
PACKAGE = "GET /api/packages/gcs/_ray_pkg_0123456789abcdef.zip"


def ran(**changes: Any) -> dict[str, Any]:
    """A job that has ended, as the Jobs API shows it."""
    env = {"working_dir": SENT, "env_vars": {"SEED": "7"}}
    metadata = {"raylab_cpus": "2", "raylab_gpus": "0.5", "raylab_recipe": "digits", "job_name": "first"}
    return job(status="SUCCEEDED", runtime_env=env, metadata=metadata, **changes)


def test_a_job_is_submitted_again_as_it_was_with_metadata_of_its_own() -> None:
    api_routes = {"GET /api/jobs/j1": ran(), PACKAGE: "", "POST /api/jobs/": {"submission_id": "j2"}}
    jobs, api, _ = jobs_with(api_routes)
    assert jobs.submit_again("j1", {"job_name": "second", "more": "x"}) == "j2"
    (body,) = api.bodies("POST /api/jobs/")
    assert body["entrypoint"] == ran()["entrypoint"]
    assert body["runtime_env"] == ran()["runtime_env"]
    assert (body["entrypoint_num_cpus"], body["entrypoint_num_gpus"]) == (2.0, 0.5)
    assert body["metadata"] == {**ran()["metadata"], "job_name": "second", "more": "x"}


def test_files_that_ray_has_forgotten_are_sent_again_only_when_they_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    jobs, api, _ = jobs_with({"POST /api/jobs/": {"submission_id": "j2"}})
    sent = jobs.submit_again  # the name of the package depends on its content
    name = f"_ray_pkg_{hashlib.sha256(package(tmp_path)).hexdigest()[:16]}.zip"
    row = ran() | {"runtime_env": {"working_dir": f"gcs://{name}"}}
    api.routes |= {"GET /api/jobs/j1": row, f"PUT /api/packages/gcs/{name}": ""}
    assert sent("j1", {}, tmp_path) == "j2"

    (tmp_path / "train.py").write_text("print(2)\n")
    other = f"_ray_pkg_{hashlib.sha256(package(tmp_path)).hexdigest()[:16]}.zip"
    api.routes |= {f"PUT /api/packages/gcs/{other}": ""}
    with pytest.raises(RefusedError, match="no longer keeps its files"):
        sent("j1", {}, tmp_path)
    with pytest.raises(RefusedError, match="no longer keeps its files"):
        sent("j1", {})
    assert len(api.bodies("POST /api/jobs/")) == 1


def test_a_job_that_ray_does_not_take_again_is_an_error() -> None:
    jobs, _, _ = jobs_with({"GET /api/jobs/j1": ran(), PACKAGE: "", "POST /api/jobs/": (500, "x\nno room")})
    with pytest.raises(ClusterError, match="j1 again: no room"):
        jobs.submit_again("j1", {})
