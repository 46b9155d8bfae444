"""up, down, status, services, logs, restart."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lab.api.hub import homes
from lab.cli.commands import lab as module
from lab.errors import MovedError, RefusedError, ServiceError, StateError, StoreError
from lab.flows.doctor import Check
from lab.services import GRAFANA
from lab.topology import Credentials, Endpoints, GpuPlan, LabSpec, Vendor
from tests.unit.cli.fakes import PLAN, SERVICES, Labctl
from tests.unit.cli.test_jobs import checkpoint
from tests.unit.fakes import job


def test_up_starts_what_was_asked_for(labctl: Labctl) -> None:
    labctl.down().ok("up", "--gpu", "none", "--workers", "3", "--cpus-per-worker", "4", "--port", "s3=9000")
    assert labctl.runtime.spec() == LabSpec(
        "raylab", PLAN, workers=3, cpus_per_worker=4, ports=(("s3", 9000),)
    )
    labctl.gpu_plan.assert_called_once_with("none", 3, "fake", chosen=(), share=False, held={})


def test_up_starts_ray_as_it_is_when_asked(labctl: Labctl) -> None:
    labctl.down().ok("up", "--stock-ray")
    assert labctl.runtime.spec().stock_ray


FULL = LabSpec(
    "raylab",
    GpuPlan(Vendor.SIMULATED, (), "asked for"),
    workers=3,
    cpus_per_worker=4,
    stock_ray=True,
    gcs_ft=True,
    queued_only=True,
)


@pytest.fixture
def full(labctl: Labctl) -> Any:
    """A lab that is up with settings of its own; records with which ones it is asked for."""
    labctl.runtime.down()
    labctl.runtime.up(FULL)
    return labctl.stub("up", labctl.runtime.status())


def test_a_bare_up_repairs_a_lab_with_settings_of_its_own(labctl: Labctl) -> None:
    labctl.down()
    labctl.ok("up", "--workers", "3", "--gcs-ft")
    labctl.runtime.die("ray-worker-2")
    assert labctl("status", "--check").exit_code == 8
    assert "lab raylab is up and healthy" in labctl.ok("up")
    assert labctl("up", "--workers", "2").exit_code == RefusedError.exit_code


@pytest.mark.parametrize("command", ["up", "demo"])
def test_what_is_not_said_stays_as_it_is_in_a_lab_that_is_up(labctl: Labctl, full: Any, command: str) -> None:
    demo = labctl.stub("lab.flows.demo.run_demo", RefusedError("not here"))
    labctl(command)
    assert FULL in (full if command == "up" else demo).call_args.args
    assert not labctl.gpu_plan.called


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (["--workers", "2"], {"workers": 2, "gpu": PLAN}),
        (["--workers", "3", "--gpu", "simulated"], {}),
        (["--cpus-per-worker", "8"], {"cpus_per_worker": 8}),
        (["--gpu", "none"], {"gpu": PLAN}),
        (["--port", "s3=9000"], {"ports": (("s3", 9000),)}),
        (["--gcs-ft", "--stock-ray"], {}),
    ],
)
def test_what_is_said_is_asked_for_of_a_lab_that_is_up(
    labctl: Labctl, full: Any, options: list[str], changes: dict[str, Any]
) -> None:
    labctl.ok("up", *options)
    assert full.call_args.args[0] == replace(FULL, **changes)


def test_a_dry_run_prints_the_command_for_the_lab_as_it_is(
    labctl: Labctl, full: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labctl.runtime, "prepare", lambda spec: ("compose", f"{spec.workers} up"))
    assert shlex.split(labctl.ok("up", "--dry-run")) == ["compose", "3 up"]
    assert labctl.json("up", "--dry-run") == {"name": "raylab", "command": ["compose", "3 up"]}
    assert not full.called


def test_up_shows_progress_on_stderr_and_the_lab_on_stdout(labctl: Labctl) -> None:
    labctl.down()
    result = labctl("up")
    assert "    0.0 s  ray-head        healthy\n" in result.stderr
    assert "GPU: none (no GPU here)" in result.stderr
    assert result.stdout.startswith("lab raylab is up and healthy (runtime fake, GPU: none)\n")
    assert f"ray-head      healthy  {labctl.lab.endpoints().dashboard}\n" in result.stdout
    assert result.stdout.endswith("note: S3 server: a dictionary\n")


def test_up_as_json_is_the_lab(labctl: Labctl) -> None:
    document = labctl.json("up")
    assert list(document) == [
        "name", "runtime", "up", "healthy", "gpu", "services", "nodes", "running_jobs", "health", "notes",
        "problems",
    ]  # fmt: skip
    assert document["gpu"] == {"vendor": "none", "reason": "no GPU here", "assignments": []}


def test_up_warns_of_scarce_resources_and_goes_on(labctl: Labctl) -> None:
    scarce = Check("memory", "warning", "1.0 GB free, 4 GB needed", "close something")
    labctl.stub("lab.flows.doctor.resource_warnings", (scarce,))
    assert "memory" not in labctl("up").stderr, "a lab that is up has its memory already"
    labctl.down()
    result = labctl("up", "--quiet")
    assert result.exit_code == 0
    assert result.stderr == "warning: memory: 1.0 GB free, 4 GB needed\n  -> close something\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--workers", "0"],
        ["--workers", "-1"],
        ["--workers", "33"],
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
    assert (result.exit_code, labctl.opened) == (2, [])
    assert result.stderr.startswith("error: ")


def test_down_says_what_it_stopped(labctl: Labctl) -> None:
    assert labctl.ok("down") == f"lab raylab: stopped {', '.join(reversed(SERVICES))}\n"
    assert labctl.ok("down") == "lab raylab: nothing was running\n"


def test_down_stops_a_lab_that_was_started_on_the_other_runtime_while_it_waited(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = [MovedError("lab raylab was started on the other runtime meanwhile")]

    def down(**_: object) -> tuple[str, ...]:
        if moved:
            raise moved.pop()
        return ("ray-head",)

    monkeypatch.setattr(labctl.runtime, "down", down)
    assert labctl.ok("down") == "lab raylab: stopped ray-head\n"
    assert len(labctl.opened) == 2


def test_a_lab_that_runs_without_its_state_file_is_not_called_down(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost() -> NoReturn:
        raise StateError("state.json is damaged, but lab raylab runs: minio", "`labctl down` stops them")

    for name in ("status", "spec", "endpoints"):
        monkeypatch.setattr(labctl.runtime, name, lost)
    for command in ("status", "status --addresses", "up", "gpus", "demo"):
        result = labctl(*command.split())
        assert result.exit_code == 20
        assert result.stdout == ""
        assert "minio\n  -> `labctl down` stops them\n" in result.stderr
        assert "labctl up" not in result.stderr
    assert labctl.json("status", code=20)["error"]["code"] == "StateError"
    assert labctl.changes() == []
    assert labctl.ok("down").startswith("lab raylab: stopped ray-worker-1, ")


def test_down_as_json(labctl: Labctl) -> None:
    assert labctl.json("down") == {
        "name": "raylab",
        "stopped": [*reversed(SERVICES)],
        "volumes_deleted": False,
    }


@pytest.mark.parametrize("arguments", [["down", "--volumes"], ["down", "--volumes", "--json"]])
def test_volumes_are_kept_where_nobody_can_be_asked(labctl: Labctl, arguments: list[str]) -> None:
    labctl.stub("checkpoints", (checkpoint(), checkpoint()))
    result = labctl(*arguments)
    assert result.exit_code == 11
    assert "2 checkpoints (2.0 MB) and every other stored object of lab raylab" in result.stderr
    assert "--yes" in result.stderr
    assert labctl.changes() == []


def test_homes_of_people_that_go_with_the_volumes_are_named(labctl: Labctl) -> None:
    for name in ("ann", "ben", ".zoe.removed"):
        (homes(labctl.lab.runtime.folder()) / name).mkdir(parents=True)
    said = labctl("down", "--volumes").stderr
    assert "every other stored object of lab raylab, and 2 homes of people in JupyterHub\n" in said


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((), ""),
        ((4,), ", and the results of 1 lesson; hand them in first: labctl lesson report"),
        ((1, 7), ", and the results of 2 lessons; hand them in first: labctl lesson report"),
    ],
)
def test_results_of_lessons_that_go_with_the_volumes_are_named(
    labctl: Labctl, tmp_path: Path, numbers: tuple[int, ...], said: str
) -> None:
    kept = tmp_path / "labs" / "raylab" / "lessons"
    kept.mkdir(parents=True)
    for number in numbers:
        (kept / f"lesson-{number:02d}.json").write_text("{}")
    result = labctl("down", "--volumes")
    assert result.exit_code == 11
    assert f"every other stored object of lab raylab{said}\n" in result.stderr


def test_volumes_are_deleted_with_yes(labctl: Labctl) -> None:
    labctl.runtime.objects["k"] = b"v"
    assert labctl.ok("down", "--volumes", "--yes").endswith("stored objects: deleted\n")
    assert not labctl.runtime.kept()
    assert labctl.json("down", "--volumes", "--yes")["volumes_deleted"] is True
    assert labctl.ok("down", "--volumes", "--yes").endswith("stored objects: there are none\n")


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 11), ("\n", 11)])
def test_on_a_terminal_volumes_are_asked_about(
    labctl: Labctl, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr("lab.cli.context.asks", lambda: True)
    labctl.stub("checkpoints", StoreError("no answer"))
    labctl.runtime.objects["k"] = b"v"
    result = labctl("down", "--volumes", input=answer)
    assert result.exit_code == code
    assert bool(labctl.runtime.kept()) is bool(code)
    assert "every stored object (nobody knows how many" in result.stderr


def test_status_shows_services_nodes_and_running_jobs(labctl: Labctl) -> None:
    labctl.jobs.put(job("job-a", "RUNNING"), job("job-b", "SUCCEEDED"))
    shown = labctl.ok("status")
    assert "ray-worker-0  8 CPU   0000" in shown
    assert "job-a  RUNNING" in shown
    assert "job-b" not in shown
    assert "note: S3 server: a dictionary" in shown


def test_status_as_json(labctl: Labctl) -> None:
    labctl.jobs.put(job("job-a", "RUNNING"))
    document = labctl.json("status")
    assert {key: document[key] for key in ("name", "runtime", "up", "healthy", "notes", "problems")} == {
        "name": "raylab",
        "runtime": "fake",
        "up": True,
        "healthy": True,
        "notes": ["S3 server: a dictionary"],
        "problems": [],
    }
    assert document["services"][1] == {
        "service": "ray-head",
        "state": "healthy",
        "detail": "",
        "url": labctl.lab.endpoints().dashboard,
        "pid": labctl.lab.status().services[1].pid,
        "container": "",
    }
    assert set(document["nodes"][0]) == {
        "service", "node_id", "alive", "head", "resources", "started_at", "ended_at", "reason",
    }  # fmt: skip
    assert [j["submission_id"] for j in document["running_jobs"]] == ["job-a"]


def test_status_survives_a_ray_that_does_not_answer(labctl: Labctl) -> None:
    labctl.api.silence()
    assert "problem: Ray's dashboard does not answer" in labctl.ok("status")
    assert labctl.json("status")["problems"] == ["Ray's dashboard does not answer"]


@pytest.mark.parametrize(("state", "code"), [("healthy", 0), ("ill", 8), ("down", 5)])
def test_only_with_check_is_an_unhealthy_lab_an_error(labctl: Labctl, state: str, code: int) -> None:
    if state == "ill":
        labctl.runtime.die("ray-worker-1")
    elif state == "down":
        labctl.down()
    assert labctl("status").exit_code == 0
    assert labctl("status", "--check").exit_code == code
    assert labctl.json("status", "--check", code=code)["up"] is (state != "down")


def test_status_names_what_is_not_healthy(labctl: Labctl) -> None:
    labctl.runtime.die("ray-worker-1", "signal 9")
    shown = labctl.ok("status")
    assert "up, but not healthy: ray-worker-1" in shown
    assert "signal 9" in shown
    assert "problem: ray-worker-1 has ended: `labctl up` repairs" in shown


ENDPOINTS = Endpoints(
    "http://127.0.0.1:8265", "127.0.0.1:6379", "http://127.0.0.1:9000",
    Credentials("hush-access", "hush-secret"), "hush-ray", "/home/x/.raylab/raylab/ray.token",
    "http://127.0.0.1:8888/lab?token=hush-jupyter", grafana_password="hush-grafana",
)  # fmt: skip
SECRETS = ("hush-ray", "hush-access", "hush-secret", "hush-jupyter")


def test_services_say_where_secrets_are_and_do_not_tell_them(labctl: Labctl) -> None:
    labctl.stub("endpoints", ENDPOINTS)
    shown = labctl.ok("status", "--addresses")
    assert "ray-head: secret in /home/x/.raylab/raylab/ray.token" in shown
    assert "minio: secret in /home/x/.raylab/raylab/s3.json" in shown
    assert "object store (S3)" in shown
    everything = (
        shown
        + json.dumps(labctl.json("status", "--addresses"))
        + labctl.ok("status")
        + labctl.ok("up", "--json")
    )
    assert not [secret for secret in (*SECRETS, "jupyter-raylab") if secret in everything]


def test_rays_own_clients_are_told_how_to_reach_the_lab_from_a_shell(labctl: Labctl) -> None:
    begin = "RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/home/x/.raylab/raylab/ray.token "
    programs = Path(sys.executable).parent
    job = "job submit --address http://127.0.0.1:8265 --working-dir . -- python train.py"
    submit = f"{begin}{programs}/ray {job}"
    labctl.stub("endpoints", ENDPOINTS)
    assert labctl.json("status", "--addresses")["shell"] == {"ray_job_submit": submit}
    labctl.stub("endpoints", replace(ENDPOINTS, ray_client="ray://127.0.0.1:10001"))
    init = f"{begin}{programs}/python -c 'import ray; ray.init(\"ray://127.0.0.1:10001\")'"
    assert f"\n{init}\n{submit}\n" in labctl.ok("status", "--addresses")
    assert labctl.json("status", "--addresses")["shell"] == {"ray_init": init, "ray_job_submit": submit}
    labctl.stub("endpoints", replace(ENDPOINTS, ray_token_file=""))
    assert labctl.json("status", "--addresses")["shell"] == {}


def test_services_tell_secrets_when_asked(labctl: Labctl) -> None:
    labctl.stub("endpoints", ENDPOINTS)
    shown = labctl.ok("status", "--show-secrets")
    assert not [secret for secret in SECRETS if secret not in shown]
    rows = {row["service"]: row for row in labctl.json("status", "--show-secrets")["services"]}
    assert rows["minio"]["secret"] == {"access_key": "hush-access", "secret_key": "hush-secret"}
    assert rows["ray-worker-0"]["secret"] is None


@pytest.mark.parametrize(
    ("reveal", "secret"), [(True, {"user": "admin", "password": "hush-grafana"}), (False, None)]
)
def test_grafanas_password_is_told_only_when_asked(reveal: bool, secret: dict[str, str] | None) -> None:
    row = module._service(GRAFANA, "healthy", "", ENDPOINTS, reveal)
    assert row["secret_file"] == "/home/x/.raylab/raylab/grafana.password"
    assert row.get("secret") == secret


def test_services_as_json(labctl: Labctl) -> None:
    document = labctl.json("status", "--addresses")
    assert list(document) == ["name", "up", "services", "shell"]
    assert document["services"][4] == {
        "service": "ray-worker-0",
        "state": "healthy",
        "what": "Ray node that trains",
        "url": "",
        "secret_file": "",
    }


def test_services_of_a_lab_that_is_down(labctl: Labctl) -> None:
    labctl.down()
    assert labctl.ok("status", "--addresses") == "lab raylab is down\n"
    assert labctl.json("status", "--addresses") == {
        "name": "raylab", "up": False, "services": [], "shell": {},
    }  # fmt: skip


def write(labctl: Labctl) -> None:
    """Let the head have written three lines."""
    labctl.runtime.host.logs["raylab", "ray-head"] = ["one", "two", "three"]


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
    write(labctl)
    assert labctl.ok("logs", "ray-head", *arguments).splitlines() == lines


def test_logs_as_json_and_as_json_lines(labctl: Labctl) -> None:
    write(labctl)
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
    "arguments",
    [["logs", "ray-head"], ["restart", "ray-head"], ["jobs", "checkpoints"], ["jobs", "stop", "x"]],
)
def test_a_lab_that_is_down_is_an_error(labctl: Labctl, arguments: list[str]) -> None:
    labctl.down()
    assert labctl(*arguments).exit_code == 5


def test_restart_stops_and_starts(labctl: Labctl) -> None:
    assert labctl.ok("restart", "ray-worker-0") == "ray-worker-0 is healthy\n"
    assert labctl.changes() == ["stop ray-worker-0", "start ray-worker-0"]
    dashboard = labctl.lab.endpoints().dashboard
    assert labctl.json("restart", "ray-head") == {"service": "ray-head", "state": "healthy", "url": dashboard}


def test_up_that_fails_is_an_error(labctl: Labctl) -> None:
    labctl.down().runtime.fail_on_start("ray-head", ServiceError("ray-head died", "labctl logs ray-head"))
    assert labctl("up").exit_code == 8
