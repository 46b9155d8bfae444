"""gpus, and the options of up and demo that choose GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.errors import GpuError, RefusedError
from lab.flows.doctor.pinning import SeenGpu, WorkerView
from lab.host.gpus import Detection, Gpu, GpuHolder
from lab.lab import Lab
from lab.topology import GpuAssignment, GpuPlan, Vendor
from tests.unit.cli.fakes import Labctl

GIB = 1024**3
H200 = tuple(
    Gpu(Vendor.NVIDIA, f"GPU-{i}", i, "NVIDIA H200", 141 * GIB, (f"/dev/nvidia{i}", "/dev/nvidiactl"))
    for i in range(2)
)
NO_AMD = Detection(problem="AMD's kernel driver is not loaded", hint="modprobe amdgpu")
PLAN = GpuPlan(
    Vendor.NVIDIA,
    tuple(GpuAssignment(f"ray-worker-{i}", gpu.uuid, gpu.label) for i, gpu in enumerate(H200)),
    "auto: 2 NVIDIA GPUs found",
)
SHARED = replace(PLAN, assignments=tuple(replace(a, gpu="GPU-0") for a in PLAN.assignments))
VIEWS = tuple(
    WorkerView(a.service, a, (SeenGpu(str(i), "NVIDIA H200"),), 1.0) for i, a in enumerate(PLAN.assignments)
)


def here(labctl: Labctl, *detection: Detection) -> None:
    """Let the machine have these GPUs."""
    labctl.stub("lab.cli.commands.gpus.gpus_here", detection)


def see(labctl: Labctl, *views: WorkerView) -> None:
    """Let the workers see this."""
    labctl.stub("lab.flows.doctor.pinning.look", views)


@pytest.fixture
def down(labctl: Labctl) -> Labctl:
    """A machine with two GPUs on which the lab is not up."""
    here(labctl, Detection(H200), NO_AMD)
    labctl.gpu_plan.return_value = PLAN
    return labctl.down()


@pytest.fixture
def running(down: Labctl) -> Labctl:
    """The same machine with the lab up."""
    down.ok("up")
    down.gpu_plan.reset_mock()
    down.lab = Lab(down.runtime, api=down.api)
    see(down, *VIEWS)
    return down


def test_the_gpus_of_the_machine_and_the_plan_are_shown(down: Labctl) -> None:
    shown = down.ok("gpus")
    assert "nvidia  0      GPU-0  NVIDIA H200, 141 GiB  /dev/nvidia0\n" in shown
    assert "note: AMD's kernel driver is not loaded -> modprobe amdgpu\n" in shown
    assert "plan: nvidia (auto: 2 NVIDIA GPUs found)\n  ray-worker-0: GPU GPU-0, NVIDIA H200" in shown
    assert "see:" not in shown
    down.gpu_plan.assert_called_once_with("auto", 2, "fake", chosen=(), share=False, held={})


def test_a_gpu_that_a_lab_holds_is_shown_with_it(down: Labctl) -> None:
    down.stub("lab.cli.commands.gpus.holders", {"GPU-1": GpuHolder("other", "/labs/other")})
    shown = down.ok("gpus")
    assert "/dev/nvidia0\n" in shown
    assert "/dev/nvidia1  lab other of /labs\n" in shown
    assert [gpu["lab"] for gpu in down.json("gpus")["gpus"]] == [None, "other"]


def test_the_options_of_up_try_another_plan(down: Labctl) -> None:
    down.gpu_plan.return_value = SHARED
    shown = down.ok("gpus", "--gpu", "nvidia", "--gpus", "GPU-0", "--share-gpu", "--workers", "3")
    down.gpu_plan.assert_called_once_with("nvidia", 3, "fake", chosen=("GPU-0",), share=True, held={})
    assert "share GPU GPU-0" in shown


def test_a_machine_without_gpus_says_so(down: Labctl) -> None:
    here(down, Detection(problem="no driver"), NO_AMD)
    down.gpu_plan.return_value = GpuPlan(Vendor.SIMULATED, (GpuAssignment("ray-worker-0"),), "auto: none")
    shown = down.ok("gpus")
    assert shown.startswith("this machine has no GPU that a lab can use\nnote: no driver\n")
    assert "ray-worker-0: simulated: a number for Ray's scheduler, with no device behind it" in shown


def test_without_a_plan_the_gpus_are_shown_all_the_same(down: Labctl) -> None:
    down.gpu_plan.side_effect = GpuError("--gpus 7: there is no such GPU", "name another")
    result = down("gpus", "--gpus", "7,0")
    assert result.exit_code == 14
    assert "GPU-1" in result.stdout
    assert "plan:" not in result.stdout
    assert result.stderr.startswith("error: --gpus 7: there is no such GPU\n  -> name another\n")
    document = down.json("gpus", "--gpus", "7,0", code=14)
    assert (len(document["gpus"]), document["plan"], document["error"]["code"]) == (2, None, "GpuError")


def test_of_a_lab_that_is_up_every_worker_is_shown_with_what_it_sees(running: Labctl) -> None:
    shown = running.ok("gpus")
    assert not running.gpu_plan.called, "the plan is the lab's own"
    assert "ray-worker-0  0 (NVIDIA H200)  1 GPU       passed\n" in shown
    assert "ray-worker-1  1 (NVIDIA H200)  1 GPU       passed\n" in shown


def test_a_worker_that_sees_the_wrong_gpu_fails_with_a_code_of_its_own(running: Labctl) -> None:
    see(running, VIEWS[0], replace(VIEWS[1], problem="sees GPU 0, which ray-worker-0 sees too"))
    result = running("gpus")
    assert result.exit_code == 17
    assert "passed\nray-worker-1" in result.stdout
    assert "1 GPU       failed\n" in result.stdout
    assert "error: ray-worker-1 sees GPU 0, which ray-worker-0 sees too\n" in result.stderr


def test_a_worker_without_a_node_has_no_count(running: Labctl) -> None:
    see(running, replace(VIEWS[0], seen=(), ray_gpus=None, problem="sees no GPU"))
    result = running("gpus")
    assert "ray-worker-0  no GPU              failed\n" in result.stdout


def test_gpus_as_json(running: Labctl) -> None:
    document = running.json("gpus")
    assert list(document) == ["gpus", "problems", "plan", "lab"]
    assert document["gpus"][1] == {
        "vendor": "nvidia",
        "index": 1,
        "uuid": "GPU-1",
        "name": "NVIDIA H200",
        "memory": 141 * GIB,
        "device_nodes": ["/dev/nvidia1", "/dev/nvidiactl"],
        "lab": None,
    }
    assert document["problems"] == ["AMD's kernel driver is not loaded"]
    assert list(document["plan"]) == ["vendor", "reason", "shared", "assignments"]
    assert document["lab"]["workers"][0] == {
        "service": "ray-worker-0",
        "planned": "GPU-0",
        "sees": [{"gpu": "0", "name": "NVIDIA H200"}],
        "ray_gpus": 1.0,
        "problem": "",
    }


def test_up_passes_the_chosen_gpus_on(down: Labctl) -> None:
    down.ok("up", "--gpus", "GPU-1, 0")
    down.gpu_plan.assert_called_once_with("auto", 2, "fake", chosen=("GPU-1", "0"), share=False, held={})
    assert down.runtime.spec().gpu == PLAN


def test_demo_takes_the_same_options(down: Labctl) -> None:
    down.stub("lab.flows.demo.run_demo", RefusedError("not here"))
    down("demo", "--gpu", "amd", "--gpus", "1,0", "--share-gpu")
    down.gpu_plan.assert_called_once_with("amd", 2, "fake", chosen=("1", "0"), share=True, held={})


@pytest.mark.parametrize("command", ["up", "demo"])
def test_sharing_is_a_warning_that_is_shown_also_when_quiet(down: Labctl, command: str) -> None:
    down.stub("lab.flows.demo.run_demo", RefusedError("not here"))
    down.stub("up")
    down.gpu_plan.return_value = SHARED
    error = down(command, "--share-gpu", "--quiet").stderr
    assert "warning: ray-worker-0, ray-worker-1 share GPU GPU-0" in error
    down.gpu_plan.return_value = PLAN
    assert "share" not in down(command, "--quiet").stderr
