"""up, down, status, services, logs, restart."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lab.cli.commands import services as module
from lab.errors import ClusterError, ServiceError, StateError, StoreError
from lab.flows.doctor import Check
from lab.topology import GRAFANA, GpuPlan, LabSpec, State, Vendor
from tests.unit.cli.fakes import DASHBOARD, SERVICES, FakeRuntime, Labctl, job
from tests.unit.cli.test_jobs import checkpoint

SECRETS = ("hush-ray", "hush-access", "hush-secret", "hush-jupyter")


def test_up_starts_what_was_asked_for(labctl: Labctl) -> None:
    labctl.ok("up", "--gpu", "none", "--workers", "3", "--cpus-per-worker", "4", "--port", "s3=9000")
    plan = GpuPlan(Vendor.NONE, (), "no GPU here")
    spec = LabSpec("raylab", plan, workers=3, cpus_per_worker=4, ports=(("s3", 9000),))
    assert labctl.core.runtime.journal == [("up", spec)]
    assert labctl.core.requests == [("none", (), False, 3)]


def test_up_starts_ray_as_it_is_when_asked(labctl: Labctl) -> None:
    labctl.ok("up", "--stock-ray")
    ((_, spec),) = labctl.core.runtime.journal
    assert spec.stock_ray


FULL = LabSpec(
    "raylab",
    GpuPlan(Vendor.SIMULATED, (), "asked for"),
    workers=3,
    cpus_per_worker=4,
    stock_ray=True,
    gcs_ft=True,
)


@pytest.mark.parametrize("command", [["up"], ["up", "--dry-run"], ["demo"]])
def test_what_is_not_said_stays_as_it_is_in_a_lab_that_is_up(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    runtime = labctl.core.runtime
    runtime.started = FULL
    monkeypatch.setattr(runtime, "prepare", lambda spec: (runtime.up(spec), ())[1])
    labctl.ok(*command)
    assert runtime.journal == [("up", FULL)]
    assert not [each for each in labctl.core.requests if isinstance(each, tuple)], "no GPU was looked for"


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (["--workers", "2"], {"workers": 2, "gpu": GpuPlan(Vendor.NONE, (), "no GPU here")}),
        (["--workers", "3", "--gpu", "simulated"], {}),
        (["--cpus-per-worker", "8"], {"cpus_per_worker": 8}),
        (["--gpu", "none"], {"gpu": GpuPlan(Vendor.NONE, (), "no GPU here")}),
        (["--port", "s3=9000"], {"ports": (("s3", 9000),)}),
        (["--gcs-ft", "--stock-ray"], {}),
    ],
)
def test_what_is_said_is_asked_for_of_a_lab_that_is_up(
    labctl: Labctl, options: list[str], changes: dict[str, Any]
) -> None:
    labctl.core.runtime.started = FULL
    labctl.ok("up", *options)
    assert labctl.core.runtime.journal == [("up", dataclasses.replace(FULL, **changes))]


def test_up_shows_progress_on_stderr_and_the_lab_on_stdout(labctl: Labctl) -> None:
    labctl.core.runtime.is_up = False
    result = labctl("up")
    assert "    1.2 s  ray-head        healthy\n" in result.stderr
    assert "GPU: none (no GPU here)" in result.stderr
    assert result.stdout.startswith("lab raylab is up and healthy (runtime fake, GPU: none)\n")
    assert f"ray-head      healthy  {DASHBOARD}\n" in result.stdout
    assert result.stdout.endswith("note: S3 server: moto\n")


def test_up_as_json_is_the_lab(labctl: Labctl) -> None:
    document = labctl.json("up")
    assert list(document) == [
        "name", "runtime", "up", "healthy", "gpu", "services", "nodes", "running_jobs", "notes", "problems",
    ]  # fmt: skip
    assert document["gpu"] == {"vendor": "none", "reason": "asked for", "assignments": []}


def test_up_warns_of_scarce_resources_and_goes_on(labctl: Labctl) -> None:
    labctl.core.warnings = (Check("memory", "warning", "1.0 GB free, 4 GB needed", "close something"),)
    assert "memory" not in labctl("up").stderr, "a lab that is up has its memory already"
    labctl.core.runtime.is_up = False
    result = labctl("up", "--quiet")
    assert result.exit_code == 0
    assert result.stderr == "warning: memory: 1.0 GB free, 4 GB needed\n  -> close something\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workers", "0"],
        ["--workers", "-1"],
        ["--workers", "17"],
        ["--cpus-per-worker", "0"],
        ["--cpus-per-worker", "99999"],
        ["--port", "s3"],
        ["--port", "nonsense=9000"],
        ["--port", "s3=80"],
        ["--port", "s3=70000"],
        ["--port", "s3=9000", "--port", "gcs=9000"],
        ["--gpu", "matrox"],
        ["--gpus", ""],
        ["--gpus", "0,,1"],
    ],
)
def test_up_refuses_what_makes_no_sense_before_anything_is_opened(
    labctl: Labctl, arguments: list[str]
) -> None:
    result = labctl("up", *arguments)
    assert (result.exit_code, labctl.core.opened, labctl.core.runtime.journal) == (2, [], [])
    assert result.stderr.startswith("error: ")


def test_down_says_what_it_stopped(labctl: Labctl) -> None:
    assert labctl.ok("down") == f"lab raylab: stopped {', '.join(SERVICES)}\n"
    assert labctl.ok("down") == "lab raylab: nothing was running\n"
    assert labctl.core.runtime.journal == [("down", False), ("down", False)]


def test_a_lab_that_runs_without_its_state_file_is_not_called_down(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost() -> NoReturn:
        raise StateError("state.json is damaged, but lab raylab runs: minio", "`labctl down` stops them")

    for name in ("status", "spec", "endpoints"):
        monkeypatch.setattr(labctl.core.runtime, name, lost)
    for command in ("status", "services", "up", "gpus", "demo"):
        result = labctl(command)
        assert result.exit_code == 20
        assert result.stdout == ""
        assert "minio\n  -> `labctl down` stops them\n" in result.stderr
        assert "labctl up" not in result.stderr
    assert labctl.json("status", code=20)["error"]["code"] == "StateError"
    assert labctl.core.runtime.journal == []
    assert labctl.ok("down") == f"lab raylab: stopped {', '.join(SERVICES)}\n"


def test_down_as_json(labctl: Labctl) -> None:
    assert labctl.json("down") == {"name": "raylab", "stopped": list(SERVICES), "volumes_deleted": False}


@pytest.mark.parametrize("arguments", [["down", "--volumes"], ["down", "--volumes", "--json"]])
def test_volumes_are_kept_where_nobody_can_be_asked(labctl: Labctl, arguments: list[str]) -> None:
    labctl.core.lab.saved = (checkpoint(), checkpoint())
    result = labctl(*arguments)
    assert result.exit_code == 11
    assert "2 checkpoints (2.0 MB) and every other stored object of lab raylab" in result.stderr
    assert "--yes" in result.stderr
    assert labctl.core.runtime.journal == []


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((), ""),
        ((4,), ", and the results of 1 lesson; hand them in first: labctl lesson report"),
        ((1, 7), ", and the results of 2 lessons; hand them in first: labctl lesson report"),
    ],
)
def test_results_of_lessons_that_go_with_the_volumes_are_named(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, numbers: tuple[int, ...], said: str
) -> None:
    monkeypatch.setenv("RAYLAB_HOME", str(tmp_path))
    (tmp_path / "raylab" / "lessons").mkdir(parents=True)
    for number in numbers:
        (tmp_path / "raylab" / "lessons" / f"lesson-{number:02d}.json").write_text("{}")
    result = labctl("down", "--volumes")
    assert result.exit_code == 11
    assert f"every other stored object of lab raylab{said}\n" in result.stderr


def test_volumes_are_deleted_with_yes(labctl: Labctl) -> None:
    assert labctl.ok("down", "--volumes", "--yes").endswith("stored objects: deleted\n")
    assert labctl.json("down", "--volumes", "--yes")["volumes_deleted"] is True
    assert labctl.core.runtime.journal == [("down", True), ("down", True)]


@pytest.mark.parametrize(
    ("answer", "code", "journal"), [("y\n", 0, [("down", True)]), ("n\n", 11, []), ("\n", 11, [])]
)
def test_on_a_terminal_volumes_are_asked_about(
    labctl: Labctl,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    journal: list[tuple[str, bool]],
) -> None:
    monkeypatch.setattr(module, "asks", lambda: True)
    labctl.core.lab.fail = StoreError("no answer")
    result = labctl("down", "--volumes", input=answer)
    assert (result.exit_code, labctl.core.runtime.journal) == (code, journal)
    assert "every stored object (how many cannot be said" in result.stderr


def test_status_shows_services_nodes_and_running_jobs(labctl: Labctl) -> None:
    labctl.core.jobs.known = {"a": job("job-a", "RUNNING"), "b": job("job-b", "SUCCEEDED")}
    shown = labctl.ok("status")
    assert "ray-worker-0  8 CPU   ray-worker-0" in shown
    assert "job-a  RUNNING" in shown
    assert "job-b" not in shown
    assert "note: S3 server: moto" in shown


def test_status_as_json(labctl: Labctl) -> None:
    labctl.core.jobs.known = {"a": job("job-a", "RUNNING")}
    document = labctl.json("status")
    assert {key: document[key] for key in ("name", "runtime", "up", "healthy", "notes", "problems")} == {
        "name": "raylab",
        "runtime": "fake",
        "up": True,
        "healthy": True,
        "notes": ["S3 server: moto"],
        "problems": [],
    }
    assert document["services"][0] == {
        "service": "ray-head",
        "state": "healthy",
        "detail": "",
        "url": DASHBOARD,
        "pid": 100,
        "container": "",
    }
    assert set(document["nodes"][0]) == {
        "service", "node_id", "alive", "head", "resources", "started_at", "ended_at", "reason",
    }  # fmt: skip
    assert [j["submission_id"] for j in document["running_jobs"]] == ["job-a"]


def test_status_survives_a_ray_that_does_not_answer(labctl: Labctl) -> None:
    labctl.core.api.fail = ClusterError("Ray's dashboard does not answer")
    assert "problem: Ray's dashboard does not answer" in labctl.ok("status")
    assert labctl.json("status")["problems"] == ["Ray's dashboard does not answer"]


@pytest.mark.parametrize(
    ("up", "state", "code"), [(True, "healthy", 0), (True, "exited", 8), (False, "healthy", 5)]
)
def test_only_with_check_is_an_unhealthy_lab_an_error(
    labctl: Labctl, up: bool, state: str, code: int
) -> None:
    labctl.core.runtime.is_up = up
    labctl.core.runtime.states["ray-worker-1"] = State(state)
    assert labctl("status").exit_code == 0
    assert labctl("status", "--check").exit_code == code
    assert labctl.json("status", "--check", code=code)["up"] is up


def test_status_names_what_is_not_healthy(labctl: Labctl) -> None:
    labctl.core.runtime.states["ray-worker-1"] = State.EXITED
    shown = labctl.ok("status")
    assert "up, but not healthy: ray-worker-1" in shown
    assert "signal 9" in shown


def test_services_say_where_secrets_are_and_do_not_tell_them(labctl: Labctl) -> None:
    shown = labctl.ok("services")
    assert "ray-head: secret in /home/x/.raylab/raylab/ray.token" in shown
    assert "minio: secret in /home/x/.raylab/raylab/s3.json" in shown
    assert "object store (S3)" in shown
    everything = shown + json.dumps(labctl.json("services")) + labctl.ok("status") + labctl.ok("up", "--json")
    assert not [secret for secret in SECRETS if secret in everything]


def test_services_tell_secrets_when_asked(labctl: Labctl) -> None:
    shown = labctl.ok("services", "--show-secrets")
    assert not [secret for secret in SECRETS if secret not in shown]
    rows = {row["service"]: row for row in labctl.json("services", "--show-secrets")["services"]}
    assert rows["minio"]["secret"] == {"access_key": "hush-access", "secret_key": "hush-secret"}
    assert rows["ray-worker-0"]["secret"] is None


@pytest.mark.parametrize(
    ("reveal", "secret"), [(True, {"user": "admin", "password": "hush-grafana"}), (False, None)]
)
def test_grafanas_password_is_told_only_when_asked(reveal: bool, secret: dict[str, str] | None) -> None:
    row = module._service(GRAFANA, "healthy", "", FakeRuntime().endpoints(), reveal)
    assert row["secret_file"] == "/home/x/.raylab/raylab/grafana.password"
    assert row.get("secret") == secret


def test_services_as_json(labctl: Labctl) -> None:
    document = labctl.json("services")
    assert list(document) == ["name", "up", "services"]
    assert document["services"][1] == {
        "service": "ray-worker-0",
        "state": "healthy",
        "what": "Ray node that trains",
        "url": "",
        "secret_file": "",
    }


def test_services_of_a_lab_that_is_down(labctl: Labctl) -> None:
    labctl.core.runtime.is_up = False
    assert labctl.ok("services") == "lab raylab is down\n"
    assert labctl.json("services") == {"name": "raylab", "up": False, "services": []}


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ([], ["one", "two", "three"]),
        (["--tail", "1"], ["three"]),
        (["--tail", "0"], []),
        (["-f"], ["one", "two", "three"]),
        (["-f", "--tail", "2"], ["two", "three"]),
    ],
)
def test_logs(labctl: Labctl, arguments: list[str], lines: list[str]) -> None:
    assert labctl.ok("logs", "ray-head", *arguments).splitlines() == lines


def test_logs_as_json_and_as_json_lines(labctl: Labctl) -> None:
    assert labctl.json("logs", "ray-head") == {"service": "ray-head", "lines": ["one", "two", "three"]}
    lines = labctl.ok("logs", "ray-head", "-f", "--json").splitlines()
    assert [json.loads(line)["line"] for line in lines] == ["one", "two", "three"]


@pytest.mark.parametrize("arguments", [["logs", "nonsense"], ["restart", "nonsense"]])
def test_an_unknown_service_is_an_error(labctl: Labctl, arguments: list[str]) -> None:
    assert labctl(*arguments).exit_code == 3


@pytest.mark.parametrize("tail", ["-1", "x", "99999999999"])
def test_an_absurd_tail_is_refused(labctl: Labctl, tail: str) -> None:
    assert labctl("logs", "ray-head", "--tail", tail).exit_code == 2


@pytest.mark.parametrize(
    "arguments", [["logs", "ray-head"], ["restart", "ray-head"], ["checkpoints"], ["job", "stop", "x"]]
)
def test_a_lab_that_is_down_is_an_error(labctl: Labctl, arguments: list[str]) -> None:
    labctl.core.runtime.is_up = False
    labctl.core.jobs.known = {}
    assert labctl(*arguments).exit_code == (3 if arguments[0] == "job" else 5)


def test_restart_stops_and_starts(labctl: Labctl) -> None:
    assert labctl.ok("restart", "ray-worker-0") == "ray-worker-0 is healthy\n"
    assert labctl.core.runtime.journal == [("stop", "ray-worker-0"), ("start", "ray-worker-0")]
    assert labctl.json("restart", "ray-head") == {"service": "ray-head", "state": "healthy", "url": DASHBOARD}


def test_up_that_fails_is_an_error(labctl: Labctl) -> None:
    labctl.core.runtime.fail = ServiceError("ray-head died", "labctl logs ray-head")
    assert labctl("up").exit_code == 8
