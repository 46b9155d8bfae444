"""A task of SkyPilot has only fields that SkyPilot has, and carries what the nodes need."""

from __future__ import annotations

import yaml

from lab.flows.kubernetes.export.wanted import Code, Wanted, portable
from lab.flows.skypilot import Sky, skypilot
from lab.topology import LabSpec

FIELDS = {"name", "workdir", "num_nodes", "resources", "envs", "secrets", "setup", "run"}
RESOURCES = {"infra", "cpus", "memory", "accelerators"}
CODE = Code("lab-train", ("python", "/opt/raylab/job/train.py", "--out", "s3://ray"), {"train.py": b"pass\n"})


def made(sky: Sky = Sky(), code: Code | None = CODE) -> dict[str, bytes]:  # noqa: B008
    spec = portable(LabSpec("school", workers=3, cpus_per_worker=6))
    return skypilot(Wanted(spec, code=code, storage="s3://box", endpoint="https://s3.school"), sky)


def test_the_task_has_the_labs_size() -> None:
    task = yaml.safe_load(made(Sky("H100:2", "k8s/ctx"))["task.yaml"])
    assert set(task) == FIELDS
    assert set(task["resources"]) == RESOURCES
    assert (task["num_nodes"], task["resources"]["cpus"], task["resources"]["memory"]) == (3, "6+", "4+")
    assert all(isinstance(value, str) for value in task["envs"].values())
    assert task["envs"]["RAYLAB_LEDGER"] == "s3://box/.raylab/ledger"


def test_keys_and_token_are_asked_for_and_not_written() -> None:
    task = yaml.safe_load(made()["task.yaml"])
    assert set(task["secrets"].values()) == {None}
    assert {"AWS_SECRET_ACCESS_KEY", "RAY_AUTH_TOKEN"} <= set(task["secrets"])


def test_nodes_wait_for_each_other_and_the_first_one_runs_the_job() -> None:
    script = made(Sky("L4"))["run.sh"].decode()
    assert "--num-cpus=6 --num-gpus=1 " in script
    assert '["Alive"] for node in ray.nodes()) < 3:' in script
    assert script.splitlines()[-1] == "python job/train.py --out s3://ray"
    assert "ray stop" not in script.partition("set -eu")[2]


def test_without_a_job_the_cluster_stays() -> None:
    assert made(code=None)["run.sh"].decode().splitlines()[-1] == "wait"


def test_recorder_code_and_pins_go_along() -> None:
    files = made()
    assert files["job/train.py"] == b"pass\n"
    assert "probe/raylab_ledger/train.py" in files
    pins = files["requirements.txt"].decode().splitlines()
    assert len(pins) == len(set(pins))
    assert any(line.startswith("ray==2.60.0") for line in pins)
