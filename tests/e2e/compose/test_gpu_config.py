"""What Compose itself makes of a GPU plan: `docker compose config`, read back. Nothing is started."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.runtime.compose import project
from lab.runtime.compose.state import ENV_FILE, OVERRIDE_FILE, ComposeState
from lab.services import worker
from lab.topology import GpuAssignment, GpuPlan, LabSpec, Vendor
from tests.conftest import ROOT
from tests.docker import needs_docker

ASK_SECONDS = 60.0
WORKERS = (1, 2, 3, 8)
OTHERS = (
    "ray-head",
    "jupyter",
    "metrics",
    "queue",
    "s3-setup",
    "minio",
    "prometheus",
    "alertmanager",
    "grafana",
)
UUIDS = [f"GPU-5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a0{i}" for i in range(8)]
SLICES = [f"MIG-a1b20000-0000-5000-8000-00000000000{i}" for i in range(8)]


def nvidia(uuids: list[str]) -> GpuPlan:
    return GpuPlan(
        Vendor.NVIDIA, tuple(GpuAssignment(worker(i), uuid, "H200") for i, uuid in enumerate(uuids))
    )


def amd(workers: int, groups: tuple[int, int] = (105, 105)) -> GpuPlan:
    # Render nodes are not in the order of the GPUs.
    nodes = [("/dev/kfd", f"/dev/dri/renderD{135 - i}") for i in range(workers)]
    return GpuPlan(
        Vendor.AMD,
        tuple(GpuAssignment(worker(i), str(i), "gfx942", pair, groups) for i, pair in enumerate(nodes)),
    )


@pytest.fixture(autouse=True)
def docker() -> None:
    needs_docker()


def compose_config(env: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    """`docker compose config` of files, with the variables of a file and no others of the lab's."""
    named = [part for file in files for part in ("--file", str(file))]
    return subprocess.run(
        ["docker", "compose", "--env-file", str(env), *named, "config", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=ASK_SECONDS,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("LAB_")},
    )


def read(env: Path, *files: Path) -> dict[str, Any]:
    """The services that Compose reads in files."""
    ended = compose_config(env, *files)
    assert ended.returncode == 0, ended.stderr
    services: dict[str, Any] = json.loads(ended.stdout)["services"]
    return services


def config(folder: Path, plan: GpuPlan, workers: int) -> dict[str, Any]:
    """The services as Compose would start them."""
    spec = LabSpec(gpu=plan, workers=workers)
    state = ComposeState(spec, {}, project.files(spec), {})
    (folder / OVERRIDE_FILE).write_text(json.dumps(project.override(state)))
    env = folder / ENV_FILE
    env.write_text(project.env_text(project.env(state, folder, (1000, 1000), {})))
    services = read(env, *project.paths(state, folder))
    assert [name for name in sorted(services) if "worker" in name] == [worker(i) for i in range(workers)]
    return services


def devices(service: dict[str, Any]) -> list[dict[str, Any]]:
    reserved = service.get("deploy", {}).get("resources", {}).get("reservations", {})
    reservations: list[dict[str, Any]] = reserved.get("devices", [])
    return reservations


def assert_workers_offer_one_gpu(services: dict[str, Any], workers: int, vendor: Vendor) -> None:
    for index in range(workers):
        service = services[worker(index)]
        assert service["environment"]["RAYLAB_GPU"] == vendor.value
        assert service["environment"]["RAYLAB_SERVICE_NAME"] == worker(index)
        assert f"--node-name={worker(index)}" in service["command"]
        assert "--num-gpus=1" in service["command"]
        assert "--num-gpus=0" not in service["command"]
    assert "--num-gpus=0" in services["ray-head"]["command"]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("uuids", [UUIDS, SLICES], ids=["GPUs", "MIG"])
def test_each_worker_gets_its_own_nvidia_gpu_and_nobody_else_gets_one(
    tmp_path: Path, workers: int, uuids: list[str]
) -> None:
    services = config(tmp_path, nvidia(uuids[:workers]), workers)
    for index in range(workers):
        (device,) = devices(services[worker(index)])
        assert device == {"driver": "nvidia", "device_ids": [uuids[index]], "capabilities": ["gpu"]}
        assert "NVIDIA_VISIBLE_DEVICES" not in services[worker(index)]["environment"]
    assert not any(devices(services[name]) for name in OTHERS)
    for name in ("ray-head", "jupyter", "metrics", "queue", "s3-setup"):
        assert services[name]["environment"]["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert_workers_offer_one_gpu(services, workers, Vendor.NVIDIA)
    images = {services[name]["image"] for name in services if "ray" in services[name]["image"]}
    assert len(images) == 1
    assert images.pop().endswith("-cuda")


@pytest.mark.parametrize("workers", WORKERS)
def test_each_worker_gets_the_device_files_of_its_own_amd_gpu(tmp_path: Path, workers: int) -> None:
    services = config(tmp_path, amd(workers), workers)
    for index in range(workers):
        service = services[worker(index)]
        paths = [(device["source"], device["target"]) for device in service["devices"]]
        render = f"/dev/dri/renderD{135 - index}"
        assert paths == [("/dev/kfd", "/dev/kfd"), (render, render)]
        assert "105" in service["group_add"]
        assert not {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"} & set(service["environment"])
    assert not any(services[name].get("devices") for name in OTHERS)
    assert_workers_offer_one_gpu(services, workers, Vendor.AMD)
    assert {services[name]["image"] for name in ("ray-head", "ray-worker-0", "jupyter")} == {
        services[worker(workers - 1)]["image"]
    }
    assert services["jupyter"]["image"].endswith("-rocm")


@pytest.mark.parametrize("groups", [(105, 105), (44, 44), (105, 44)])
def test_the_groups_of_the_device_files_are_accepted(tmp_path: Path, groups: tuple[int, int]) -> None:
    services = config(tmp_path, amd(3, groups), 3)
    for index in range(3):
        assert {str(group) for group in groups} <= set(services[worker(index)]["group_add"])


@pytest.mark.parametrize("workers", [2, 3])
def test_a_shared_gpu_is_in_every_worker_and_said_to_be_shared(tmp_path: Path, workers: int) -> None:
    services = config(tmp_path, nvidia([UUIDS[0]] * workers), workers)
    for index in range(workers):
        assert devices(services[worker(index)])[0]["device_ids"] == [UUIDS[0]]
    for name in ("ray-head", "jupyter", *(worker(i) for i in range(workers))):
        assert services[name]["environment"]["RAYLAB_GPU_SHARED"] == "1"


def test_the_pages_file_for_a_shared_gpu_reaches_what_trains_on_it(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", (ROOT / "docs" / "gpus.md").read_text(), re.M | re.S)
    (tmp_path / "shared.yaml").write_text(block)
    (tmp_path / ENV_FILE).write_text("".join(f"LAB_WORKER_{i}_GPU={UUIDS[0]}\n" for i in range(2)))
    page = (project.COMPOSE / "lab.yaml", project.COMPOSE / "gpu-nvidia.yaml", tmp_path / "shared.yaml")
    services = read(tmp_path / ENV_FILE, *page)
    shared = {
        name: service["environment"]["RAYLAB_GPU_SHARED"]
        for name, service in services.items()
        if "RAYLAB_GPU_SHARED" in service.get("environment", {})
    }
    assert shared == dict.fromkeys(("ray-head", "jupyter", worker(0), worker(1)), "1")
    assert [devices(services[worker(i)])[0]["device_ids"] for i in range(2)] == [[UUIDS[0]]] * 2


@pytest.mark.parametrize("workers", WORKERS)
def test_simulated_workers_offer_a_gpu_and_get_no_device(tmp_path: Path, workers: int) -> None:
    plan = GpuPlan(Vendor.SIMULATED, tuple(GpuAssignment(worker(i)) for i in range(workers)))
    services = config(tmp_path, plan, workers)
    assert not any(devices(service) or service.get("devices") for service in services.values())
    assert_workers_offer_one_gpu(services, workers, Vendor.SIMULATED)


def test_workers_differ_in_nothing_but_name_and_gpu(tmp_path: Path) -> None:
    services = config(tmp_path, nvidia(UUIDS[:3]), 3)
    for name in ("NO_PROXY", "no_proxy"):  # the list of all services, the same for each
        listed = [services[worker(i)]["environment"].pop(name) for i in range(3)]
        assert listed[0] == listed[1] == listed[2]
    plain = [json.dumps(services[worker(i)], sort_keys=True) for i in range(3)]
    for i in range(3):
        plain[i] = plain[i].replace(worker(i), "NAME").replace(UUIDS[i], "UUID")
    assert plain[0] == plain[1] == plain[2]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("gpu-nvidia.yaml", r"variable LAB_WORKER_[01]_GPU is missing a value: set it to the UUID"),
        ("gpu-amd.yaml", r"variable LAB_(WORKER_[01]_RENDER|RENDER_GID) is missing a value: set it to"),
    ],
)
def test_plain_compose_says_which_variable_is_missing(tmp_path: Path, file: str, said: str) -> None:
    env = tmp_path / "empty.env"
    env.touch()
    ended = compose_config(env, project.COMPOSE / "lab.yaml", project.COMPOSE / file)
    assert ended.returncode != 0
    assert re.search(said, ended.stderr), ended.stderr
