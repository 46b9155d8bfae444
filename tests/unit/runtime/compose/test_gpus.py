"""A GPU plan as files, variables and override of a Compose project."""

from __future__ import annotations

import re

import pytest

from lab.runtime.compose.gpus import FILES, GpuFragment, compose_gpu, image
from lab.services import worker
from lab.topology import GpuAssignment, GpuPlan, Vendor
from lab.version import __version__
from tests.conftest import ROOT

UUIDS = [f"GPU-{i}" for i in range(8)]


def nvidia(*uuids: str) -> GpuPlan:
    return GpuPlan(Vendor.NVIDIA, tuple(GpuAssignment(worker(i), uuid) for i, uuid in enumerate(uuids)))


def amd(*minors: int, groups: tuple[int, ...] = (105, 105)) -> GpuPlan:
    return GpuPlan(
        Vendor.AMD,
        tuple(
            GpuAssignment(worker(i), str(i), "gfx942", ("/dev/kfd", f"/dev/dri/renderD{minor}"), groups)
            for i, minor in enumerate(minors)
        ),
    )


def simulated(workers: int) -> GpuPlan:
    return GpuPlan(Vendor.SIMULATED, tuple(GpuAssignment(worker(i)) for i in range(workers)))


def test_without_gpus_nothing_is_added() -> None:
    assert compose_gpu(GpuPlan(Vendor.NONE), 3) == GpuFragment()


@pytest.mark.parametrize("vendor", list(FILES))
def test_two_workers_need_no_override(vendor: Vendor) -> None:
    plan = {Vendor.NVIDIA: nvidia("a", "b"), Vendor.AMD: amd(129, 128), Vendor.SIMULATED: simulated(2)}[
        vendor
    ]
    fragment = compose_gpu(plan, 2)
    assert fragment.files == (FILES[vendor],)
    assert fragment.override == {}
    assert fragment.gpus_per_worker == 1


def test_nvidia_workers_are_pinned_by_uuid() -> None:
    assert compose_gpu(nvidia("GPU-7", "MIG-a1"), 2).env == {
        "LAB_WORKER_0_GPU": "GPU-7",
        "LAB_WORKER_1_GPU": "MIG-a1",
    }


def test_a_worker_that_is_not_started_has_a_value_that_no_device_has() -> None:
    assert compose_gpu(nvidia("GPU-7"), 1).env == {"LAB_WORKER_0_GPU": "GPU-7", "LAB_WORKER_1_GPU": "unused"}
    assert compose_gpu(amd(128), 1).env["LAB_WORKER_1_RENDER"] == "unused"


def test_workers_beyond_the_files_are_pinned_in_the_override() -> None:
    fragment = compose_gpu(nvidia(*UUIDS), 8)
    services = fragment.override["services"]
    assert list(services) == [worker(i) for i in range(2, 8)]
    device = {"driver": "nvidia", "device_ids": ["GPU-5"], "capabilities": ["gpu"]}
    assert services["ray-worker-5"]["deploy"]["resources"]["reservations"]["devices"] == [device]
    assert services["ray-worker-5"]["environment"] == {
        "RAYLAB_GPU": "nvidia",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    assert services["ray-worker-5"]["image"] == image(Vendor.NVIDIA)


def test_amd_workers_get_device_files_and_the_groups_that_own_them() -> None:
    fragment = compose_gpu(amd(129, 128, 130, groups=(44, 105)), 3)
    assert fragment.env == {
        "LAB_WORKER_0_RENDER": "/dev/dri/renderD129",
        "LAB_WORKER_1_RENDER": "/dev/dri/renderD128",
        "LAB_VIDEO_GID": "44",
        "LAB_RENDER_GID": "105",
    }
    third = fragment.override["services"]["ray-worker-2"]
    assert third["devices"] == ["/dev/kfd:/dev/kfd", "/dev/dri/renderD130:/dev/dri/renderD130"]
    assert third["group_add"] == ["44", "105"]


@pytest.mark.parametrize(
    ("groups", "video", "render"),
    [((105, 105), "44", "105"), ((44, 44), "39", "44"), ((105, 44), "105", "44")],
)
def test_the_two_groups_differ_as_compose_demands(groups: tuple[int, int], video: str, render: str) -> None:
    env = compose_gpu(amd(128, 129, groups=groups), 2).env
    assert (env["LAB_VIDEO_GID"], env["LAB_RENDER_GID"]) == (video, render)
    extra = compose_gpu(amd(1, 2, 3, groups=groups), 3).override["services"]["ray-worker-2"]["group_add"]
    assert len(extra) == len(set(extra))


def test_groups_that_could_not_be_told_are_left_to_the_env_file() -> None:
    assert not [name for name in compose_gpu(amd(128, 129, groups=()), 2).env if name.endswith("_GID")]


def test_who_chooses_between_nccl_and_gloo_is_told_that_a_gpu_is_shared() -> None:
    services = compose_gpu(nvidia("GPU-0", "GPU-0", "GPU-0"), 3).override["services"]
    assert set(services) == {"ray-head", "jupyter", *(worker(i) for i in range(3))}
    assert all(service["environment"]["RAYLAB_GPU_SHARED"] == "1" for service in services.values())
    assert "RAYLAB_GPU_SHARED" not in str(compose_gpu(nvidia("GPU-0", "GPU-1", "GPU-2"), 3).override)


def test_simulated_workers_get_no_device() -> None:
    fragment = compose_gpu(simulated(3), 3)
    assert fragment.env == {}
    assert fragment.override == {"services": {"ray-worker-2": {"environment": {"RAYLAB_GPU": "simulated"}}}}


# The files


def text(name: str) -> str:
    return (ROOT / "compose" / name).read_text(encoding="utf-8")


def command(name: str, service: str) -> list[str]:
    """The lines of a service's command."""
    block = re.search(rf"^  {service}:\n(?:    .*\n)*?    command:\n((?:      - .*\n)+)", text(name), re.M)
    assert block, f"{service} has no command in {name}"
    return [line.strip().removeprefix("- ") for line in block[1].splitlines()]


@pytest.mark.parametrize("name", FILES.values())
@pytest.mark.parametrize("service", ["ray-worker-0", "ray-worker-1"])
def test_a_worker_with_a_gpu_is_started_like_one_without_but_for_the_gpu(name: str, service: str) -> None:
    plain = command("lab.yaml", service)
    assert "--num-gpus=0" in plain
    assert command(name, service) == [word.replace("--num-gpus=0", "--num-gpus=1") for word in plain]


@pytest.mark.parametrize("vendor", [Vendor.NVIDIA, Vendor.AMD])
def test_the_image_is_that_of_this_version(vendor: Vendor) -> None:
    assert f"x-image: &image {image(vendor)}\n" in text(FILES[vendor])
    assert __version__ in image(vendor)


@pytest.mark.parametrize("vendor", [Vendor.NVIDIA, Vendor.AMD])
def test_every_variable_of_the_files_is_one_that_labctl_sets(vendor: Vendor) -> None:
    plan = nvidia("GPU-0", "GPU-1") if vendor is Vendor.NVIDIA else amd(128, 129)
    names = set(re.findall(r"\$\{(LAB_\w+)", text(FILES[vendor])))
    assert names - {"LAB_IMAGE", "LAB_CPUS_PER_WORKER"} == set(compose_gpu(plan, 2).env)
