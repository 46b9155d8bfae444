"""The client of the queues' controller: what it sends, and what it makes of the answers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from urllib3.exceptions import ProtocolError

from lab.api.base import plain
from lab.api.queue import QueueEvent
from lab.api.queue_requests import Misfit, Workers
from lab.cluster.controller import RefusedFilesError
from lab.cluster.queue_request import QueueRequest, of_command, of_recipe, refuse_past_queues
from lab.cluster.queues import Queues
from lab.cluster.recipes import find_recipe
from lab.cluster.submission import Submission
from lab.errors import (
    ClusterError,
    LabDownError,
    LabError,
    NotFoundError,
    RefusedError,
    UnsupportedError,
    UsageError,
)
from lab.topology import LabSpec


class Pool:
    """A controller that gives these answers, each a status and a document or bytes."""

    def __init__(self, *answers: tuple[int, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, bytes | None]] = []

    def request(self, method: str, url: str, *, body: bytes | None = None, **_: Any) -> SimpleNamespace:
        self.asked.append((method, url.removeprefix("http://queue"), body))
        if not self.answers:
            raise ProtocolError("gone")
        status, content = self.answers.pop(0)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return SimpleNamespace(status=status, headers={}, data=data)


def queues(*answers: tuple[int, Any]) -> tuple[Queues, Any]:
    """A client with a controller behind it."""
    pool: Any = Pool(*answers)
    return Queues("http://queue/", "token", pool=pool), pool


def refused(code: int, **more: Any) -> tuple[int, Any]:
    return 400, {"error": {"code": code, "message": "no", "hint": "do", **more}}


@pytest.mark.parametrize(("code", "kind"), [(2, UsageError), (3, NotFoundError), (11, RefusedError)])
def test_an_error_comes_back_as_the_one_that_the_controller_raised(code: int, kind: type[LabError]) -> None:
    client, _ = queues(refused(code))
    with pytest.raises(kind) as caught:
        client.why("a/b")
    assert (caught.value.exit_code, caught.value.message, caught.value.hint) == (code, "no", "do")


def test_refused_files_keep_what_is_wrong() -> None:
    problem = Misfit("a", 3, "spec", "no", "")
    client, _ = queues((422, refused(2, problems=[plain(problem)])[1]))
    with pytest.raises(RefusedFilesError) as caught:
        client.apply([("a", "kind: X")])
    assert caught.value.problems == (problem,)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, b"<html>"), "is not the queues' controller"),
        ((500, {"error": "text"}), "HTTP 500"),
        ((200, b"<html>"), "is not the queues' controller"),
        ((401, {}), "refused the token"),
    ],
)
def test_what_is_no_answer_of_the_controller(answer: tuple[int, Any], message: str) -> None:
    client, _ = queues(answer)
    with pytest.raises(ClusterError, match=message):
        client.queues()


def test_no_answer_and_no_controller_are_two_things() -> None:
    with pytest.raises(LabDownError, match="the connection broke"):
        queues()[0].queues()
    with pytest.raises(UnsupportedError, match="no controller of queues"):
        Queues("", "token").queues()


def test_a_job_is_looked_for_by_name_in_any_namespace() -> None:
    client, pool = queues((404, {}), (404, {}))
    for name in ("job-x", "ann/job x"):
        with pytest.raises(ClusterError):
            client.describe(name)
    assert [path for _, path, _ in pool.asked] == ["/workloads/*/job-x", "/workloads/ann/job%20x"]


def test_a_folder_is_sent_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("1")
    job = of_command(Submission(("python", "train.py"), tmp_path, num_gpus=1), QueueRequest("a"))
    created = (201, {"workload": "ns/job-x", "submission_id": "job-x"})
    client, pool = queues((404, {}), (201, {}), created, (204, b""), created)
    for _ in range(2):
        submitted = client.submit(job)
        assert (submitted.workload, submitted.submission_id) == ("ns/job-x", "job-x")
    assert [method for method, *_ in pool.asked] == ["GET", "PUT", "POST", "GET", "POST"]
    body = json.loads(pool.asked[2][2] or b"")
    assert pool.asked[1][1] == f"/packages/{body['package']}"
    assert (body["num_gpus"], body.get("workers")) == (1, None)


def test_modules_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    environment = {"py_modules": [tmp_path / "mylib"]}
    job = of_command(Submission(("true",), tmp_path, num_gpus=1, runtime_env=environment), QueueRequest("a"))
    client, pool = queues()
    for order in (client.submit, client.dry_run):
        with pytest.raises(UsageError, match=r"py_modules: .*mylib"):
            order(job)
    assert not pool.asked


def test_a_name_that_was_chosen_is_sent() -> None:
    job = of_command(Submission(("true",), num_gpus=1), QueueRequest("a", name="mine"))
    client, pool = queues((201, {"workload": "ns/mine", "submission_id": "mine"}))
    assert client.submit(job).submission_id == "mine"
    assert json.loads(pool.asked[0][2] or b"")["name"] == "mine"


def test_events_are_read_page_after_page() -> None:
    one, two, five = (plain(QueueEvent(number, 0.0, "Admitted", "ns/a", "", "", "q")) for number in (1, 2, 5))
    client, pool = queues((200, [one, two]), (200, [five]), (200, []))
    assert [event.number for event in client.events()] == [1, 2, 5]
    assert [path for _, path, _ in pool.asked] == [f"/events?since={number}" for number in (0, 2, 5)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue": ""},
        {"workers": 0},
        {"workers": 2, "min_workers": 3},
        {"gpus_per_worker": -1.0},
        {"cpus_per_worker": float("nan")},
        {"max_time": float("inf")},
        {"name": "My_Job"},
        {"name": "x" * 64},
        {"name": "job-"},
    ],
)
def test_requests_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        QueueRequest(**{"queue": "a", **wrong})


def test_a_recipe_has_its_own_amounts() -> None:
    recipe = find_recipe("digits")
    for wish in ({"workers": 2}, {"gpus_per_worker": 1.0}, {"cpus_per_worker": 1.0}):
        with pytest.raises(UsageError, match="the recipe digits"):
            of_recipe(recipe, {}, QueueRequest("a", **wish), 2)
    job = of_recipe(recipe, {"workers": "2"}, QueueRequest("a", min_workers=1), 2)
    assert job.request.pod_set == Workers(2, min_count=1, cpus=1.0, gpus=1.0)
    with pytest.raises(UsageError, match="min_workers 3"):
        of_recipe(recipe, {"workers": "2"}, QueueRequest("a", min_workers=3), 2)


def test_a_lab_can_take_jobs_only_through_queues() -> None:
    refuse_past_queues(LabSpec())
    with pytest.raises(RefusedError, match="--queued-only"):
        refuse_past_queues(LabSpec(queued_only=True))


def test_an_answer_of_another_shape_is_named_by_its_field() -> None:
    listing = {"workloads": [], "total": "many", "now": 1.0}
    client, _ = queues((200, listing))
    with pytest.raises(ClusterError) as caught:
        client.list()
    message = (
        "the answer of the queues' controller to /workloads: total should be a valid integer, not 'many'"
    )
    assert caught.value.message == message


def test_fields_of_a_newer_controller_are_passed_over() -> None:
    listing = {"workloads": [], "total": 0, "now": 1.0, "away": {}, "colour": "red"}
    assert plain(queues((200, listing))[0].list()) == {"workloads": [], "total": 0, "now": 1.0, "away": {}}
