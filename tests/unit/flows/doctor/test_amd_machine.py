"""A machine with four AMD GPUs, made of files: found, planned, given to containers, sick and gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.flows.doctor.pinning import SeenGpu, SeenGpus, WorkerView, compare
from lab.host.gpus import GpuHolder, GpuRequest, amd_gpus, plan
from lab.runtime.compose.gpus import compose_gpu
from lab.services import worker
from lab.topology import GpuPlan
from raylab_health.checks import CHECKS
from raylab_health.node import Node
from raylab_node import gpus
from tests.unit.host.gpus.test_amd import cpu, gpu
from tests.unit.host.gpus.test_plan import NO_NVIDIA

MINORS = (131, 128, 130, 129)
"""N of each GPU's /dev/dri/renderDN: not in the order of the GPUs."""
WORKERS = 3
GROUP = 105


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    root = tmp_path / "machine"
    cpu(root, 0)
    for number, minor in enumerate(MINORS, 1):
        gpu(root, number, minor)
        umc = root / f"sys/class/drm/renderD{minor}/device/ras/umc_err_count"
        umc.parent.mkdir(parents=True)
        umc.write_text("ue: 0\nce: 0\n")
    return root


def planned(machine: Path, held: dict[str, GpuHolder] | None = None) -> GpuPlan:
    detected = amd_gpus(machine, group=lambda path: GROUP)
    return plan(GpuRequest("amd"), WORKERS, nvidia=NO_NVIDIA, amd=lambda: detected, held=held or {})


def files_of(made: GpuPlan) -> dict[str, list[str]]:
    """The device files that the container of each worker gets."""
    fragment = compose_gpu(made, WORKERS)
    given = {worker(i): ["/dev/kfd", fragment.env[f"LAB_WORKER_{i}_RENDER"]] for i in range(2)}
    third = fragment.override["services"][worker(2)]
    assert third["group_add"] == [str(GROUP)]
    return {**given, worker(2): [entry.split(":")[0] for entry in third["devices"]]}


def seen(machine: Path, made: GpuPlan) -> tuple[WorkerView, ...]:
    """What each worker sees: all of sysfs, as in a container, and its own device files only."""
    answers = {}
    for service, files in files_of(made).items():
        own = {machine / name.lstrip("/") for name in files}
        listed, problem = gpus.amd(machine, {}, lambda path, own=own: path in own and path.exists())  # type: ignore[misc]
        answers[service] = SeenGpus(tuple(SeenGpu(gpu["gpu"], gpu["name"]) for gpu in listed), problem)
    return compare(made, answers, dict.fromkeys(answers, 1.0))


def test_each_worker_sees_its_own_gpu(machine: Path) -> None:
    views = seen(machine, planned(machine))
    assert [(view.seen[0].gpu, view.problem) for view in views] == [
        (f"renderD{minor}", "") for minor in MINORS[:WORKERS]
    ]


def test_a_gpu_of_another_lab_is_left_to_it(machine: Path) -> None:
    made = planned(machine, {"renderD128": GpuHolder("other", "/labs/other")})
    assert made.devices == ("renderD131", "renderD130", "renderD129")
    assert {view.problem for view in seen(machine, made)} == {""}


def test_the_partitions_of_a_card_are_gpus_of_their_own_that_have_one_uuid(tmp_path: Path) -> None:
    """As an MI300X in the mode CPX: a node and a render node each, and the card's `unique_id`."""
    for number, minor in enumerate(MINORS):
        gpu(tmp_path, number, minor, unique=0x1000)
    detected = amd_gpus(tmp_path, group=lambda path: GROUP)

    def asked(*gpus: str) -> GpuPlan:
        return plan(GpuRequest("amd", gpus), len(gpus) or 4, nvidia=NO_NVIDIA, amd=lambda: detected)

    assert asked().devices == tuple(f"renderD{minor}" for minor in MINORS)
    assert asked("renderD130", "0").devices == ("renderD130", "renderD131")
    with pytest.raises(UsageError, match="ambiguous") as caught:
        asked("GPU-0000000000001000")
    assert caught.value.hint == "name it by its index, or by its render node; `labctl gpus` lists them"


def test_a_gpu_that_disappears_is_missed_by_its_worker_and_its_health(machine: Path) -> None:
    made = planned(machine)
    (machine / "dev/dri/renderD128").unlink()
    folder = machine / "sys/class/drm/renderD128"
    folder.rename(folder.with_name("gone"))
    problems = [view.problem for view in seen(machine, made)]
    assert problems == ["", "sees no GPU (no /dev/dri/renderD of a GPU can be opened here)", ""]
    detection = amd_gpus(machine, group=lambda path: GROUP)
    assert (len(detection.gpus), "/dev/dri/renderD128 is missing" in detection.problem) == (3, True)
    assert health(machine, "renderD128") == (
        "EVICT",
        "the GPU does not answer: /sys/class/drm/renderD128/device is gone",
    )


def test_a_gpu_that_falls_sick_is_told_by_its_render_node(machine: Path) -> None:
    assert health(machine, "renderD131") == ("PASS", "")
    (machine / "sys/class/drm/renderD131/device/ras/umc_err_count").write_text("ue: 2\nce: 7\n")
    assert health(machine, "renderD131")[0] == "EVICT"
    assert health(machine, "renderD128") == ("PASS", "")


def health(machine: Path, device: str) -> tuple[str, str]:
    """State and message of the check of memory errors."""
    check = next(check for check in CHECKS if check.name == "ecc")
    finding = check.examine(Node({"RAYLAB_GPU": "amd"}, machine), device)
    return finding.state, finding.message


def test_the_devices_of_a_node_are_its_render_nodes(machine: Path) -> None:
    listed = Node({"RAYLAB_GPU": "amd", "HIP_VISIBLE_DEVICES": "1"}, machine).devices(1)
    assert [device["name"] for device in listed] == ["renderD128", "cpu"]
