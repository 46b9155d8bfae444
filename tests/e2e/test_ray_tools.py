"""The lab with Ray's own tools, from a shell that has its environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.runtime.local.runtime import LocalRuntime
from tests.e2e.harness import PATIENCE, ROOT, Bench

RAY = str(Path(sys.executable).parent / "ray")

DRIVER = """
import ray
ray.init()
@ray.remote(num_cpus=1)
def where():
    import os
    return os.environ["RAYLAB_SERVICE_NAME"]
print("task ran on", ray.get(where.remote()), "GPUs", ray.cluster_resources()["GPU"])
"""


def variables(bench: Bench) -> dict[str, str]:
    """The lab's environment of a shell."""
    runtime = bench.lab.runtime
    assert isinstance(runtime, LocalRuntime)
    return runtime.client_environment()


def shell(
    bench: Bench, *argv: str, without: tuple[str, ...] = (), **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell that has the lab's environment and `more`, and nothing else of Ray's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY", "AWS_", "PYTHONPATH"))}
    environment = {**kept, **variables(bench), **more}
    for name in without:
        del environment[name]
    return subprocess.run(
        argv, env=environment, cwd=bench.home, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_plain_ray_job_submit_trains_and_leaves_ledger_and_checkpoints(bench: Bench) -> None:
    folder = str(ROOT / "workspace" / "digits")
    job = "e2e-plain"
    ended = shell(
        bench, RAY, "job", "submit", "--submission-id", job, "--working-dir", folder,
        "--", "python", "train.py", "--epochs", "2",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "done: epoch 2" in ended.stdout
    run = bench.lab.history(job).runs[-1]
    assert [report.progress for report in run.attempts[0].reports] == [1, 2]
    stored = bench.lab.checkpoints(job)
    assert [checkpoint.epoch for checkpoint in stored] == [1, 2]
    assert {checkpoint.uri for checkpoint in stored} == {checkpoint.uri for checkpoint in run.checkpoints}


@pytest.mark.parametrize("without", [("RAY_AUTH_TOKEN_PATH",), ("RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE")])
def test_ray_job_submit_without_the_token_is_refused(bench: Bench, without: tuple[str, ...]) -> None:
    known = {job.submission_id for job in bench.lab.jobs.list()}
    ended = shell(bench, RAY, "job", "submit", "--", "python", "-c", "pass", without=without)
    assert ended.returncode != 0
    assert "auth" in (ended.stdout + ended.stderr).lower()
    assert {job.submission_id for job in bench.lab.jobs.list()} == known


@pytest.mark.parametrize(
    ("command", "says"),
    [("status", "CPU"), ("list nodes", "ALIVE"), ("timeline", "Trace file written to")],
)
def test_rays_own_commands_find_the_cluster(bench: Bench, command: str, says: str) -> None:
    ended = shell(bench, RAY, *command.split())
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert says in ended.stdout + ended.stderr


@pytest.mark.parametrize(("command", "says"), [("status", "CPU"), ("timeline", "Trace file written to")])
def test_they_find_it_where_only_rays_client_joins_too(bench: Bench, command: str, says: str) -> None:
    """As in JupyterLab of a lab of containers, which has no node beside it."""
    head = variables(bench)["RAY_ADDRESS"]
    ended = shell(bench, RAY, command, RAY_ADDRESS="ray://127.0.0.1:1", RAYLAB_GCS_ADDRESS=head)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert says in ended.stdout
    if command == "timeline":
        (written,) = bench.home.glob("ray-timeline-*.json")
        assert isinstance(json.loads(written.read_text()), list)


def test_a_driver_from_another_process_joins_the_cluster(bench: Bench) -> None:
    ended = shell(bench, sys.executable, "-c", DRIVER)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "task ran on ray-worker-" in ended.stdout
    assert "GPUs 2.0" in ended.stdout


def test_the_process_for_a_client_is_started_without_grpcs_handlers_of_a_fork(bench: Bench) -> None:
    """They may end it before it is a program; gRPC says so when it only skips them."""
    client = bench.lab.endpoints().gcs.partition(":")[0], bench.state().ports["client"]
    ended = shell(bench, sys.executable, "-c", DRIVER, RAY_ADDRESS="ray://{}:{}".format(*client))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "task ran on ray-worker-" in ended.stdout
    logs = bench.runtime()._layout.ray_temporary / "session_latest" / "logs"
    said = (logs / "ray_client_server.err").read_text()
    assert "SpecificServer started" in said
    assert "skipping fork() handlers" not in said
