"""What the engine needs to give GPUs to containers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.errors import GpuError
from lab.host.gpus import Detection, Gpu, GpuRequest, amd_gpus, plan
from lab.host.gpus.docker import (
    HOOK,
    TOOLKIT,
    GpuHost,
    amd_for_containers,
    detectors,
    gather,
    listed,
    problem,
)
from lab.topology import Vendor
from tests.unit.host.gpus.test_amd import gpu as amd_gpu

H200 = Detection(tuple(Gpu(Vendor.NVIDIA, f"GPU-{i}", i, "NVIDIA H200", 0) for i in range(2)))
NOTHING = Detection(problem="no driver", hint="install it")
PLAIN = GpuHost(answers=True, runtimes=("io.containerd.runc.v2", "runc"))
# `docker info --format '{{json .}}'` of an engine with the toolkit, cut down.
INFO = {
    "ServerVersion": "28.3.0",
    "Runtimes": {"nvidia": {"path": "nvidia-container-runtime"}, "runc": {"path": "runc"}},
    "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}],
    "OperatingSystem": "Ubuntu 24.04.3 LTS",
}


def asked(output: str, code: int = 0, programs: Sequence[str] = ("docker",)) -> GpuHost:
    def run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        assert argv == ("/bin/docker", "info", "--format", "{{json .}}")
        return subprocess.CompletedProcess([], code, output, "")

    return gather(lambda name: f"/bin/{name}" if name in programs else None, run)


def test_the_engine_says_what_it_has() -> None:
    assert asked(json.dumps(INFO), programs=("docker", HOOK, TOOLKIT)) == GpuHost(
        True, ("nvidia", "runc"), ("nvidia.com/gpu=0",), (HOOK, TOOLKIT)
    )
    assert asked(json.dumps({**INFO, "OperatingSystem": "Docker Desktop"})).desktop


@pytest.mark.parametrize(
    ("output", "code"),
    [("", 1), ("nonsense", 0), ("[]", 0), (json.dumps({"ServerVersion": "", "Runtimes": None}), 0)],
)
def test_an_engine_that_does_not_answer_is_known_to_have_nothing(output: str, code: int) -> None:
    host = asked(output, code)
    assert not host.answers
    assert problem(Vendor.NVIDIA, host) == ("", ""), "that the engine does not answer is told elsewhere"


def test_without_docker_nothing_is_run() -> None:
    assert asked("", programs=()) == GpuHost()


@pytest.mark.parametrize(
    "changes",
    [{"runtimes": ("nvidia", "runc")}, {"programs": (HOOK,)}, {"cdi": ("nvidia.com/gpu=GPU-1",)}],
    ids=["runtime", "hook", "CDI"],
)
def test_each_way_to_nvidias_gpus_will_do(changes: dict[str, Any]) -> None:
    assert problem(Vendor.NVIDIA, GpuHost(**{"answers": True, "runtimes": ("runc",), **changes})) == ("", "")


@pytest.mark.parametrize(
    ("host", "said", "todo"),
    [
        (PLAIN, "is not installed", "install the package nvidia-container-toolkit"),
        (GpuHost(True, programs=(TOOLKIT,)), "Docker does not know it", "nvidia-ctk runtime configure"),
        (
            GpuHost(True, programs=(HOOK, TOOLKIT), desktop=True),
            "is not installed",
            "nvidia-container-toolkit",
        ),
        (GpuHost(True, cdi=("amd.com/gpu=0",)), "is not installed", "nvidia-container-toolkit"),
    ],
)
def test_a_missing_toolkit_is_told_in_dockers_words_and_with_the_command(
    host: GpuHost, said: str, todo: str
) -> None:
    why, hint = problem(Vendor.NVIDIA, host)
    assert said in why
    assert 'could not select device driver "nvidia"' in why
    assert todo in hint
    assert "systemctl restart docker" in hint
    assert "--runtime local" in hint


def test_amd_needs_nothing_of_docker_but_a_kernel_of_this_machine() -> None:
    assert problem(Vendor.AMD, PLAIN) == ("", "")
    assert "/dev/kfd" in problem(Vendor.AMD, GpuHost(True, desktop=True))[0]


def never() -> GpuHost:
    raise AssertionError("the engine is not asked where there are no GPUs")


def host(machine: GpuHost) -> Callable[[], GpuHost]:
    return lambda: machine


def test_without_gpus_the_engine_is_not_asked() -> None:
    nvidia, amd = detectors(never, lambda: NOTHING, lambda: NOTHING)
    assert (nvidia(), amd()) == (NOTHING, NOTHING)


def test_gpus_that_containers_cannot_get_are_an_error_before_anything_starts() -> None:
    nvidia, amd = detectors(host(PLAIN), lambda: H200, lambda: NOTHING)
    with pytest.raises(GpuError) as caught:
        plan(GpuRequest("nvidia"), 2, nvidia=nvidia, amd=amd)
    assert caught.value.message.startswith("--gpu nvidia: NVIDIA's Container Toolkit is not installed")
    assert "nvidia-container-toolkit" in caught.value.hint


def test_auto_does_without_gpus_that_containers_cannot_get_and_says_why() -> None:
    nvidia, amd = detectors(host(PLAIN), lambda: H200, lambda: NOTHING)
    made = plan(GpuRequest("auto"), 2, nvidia=nvidia, amd=amd)
    assert made.vendor is Vendor.SIMULATED
    assert "Container Toolkit is not installed" in made.reason


def test_gpus_that_containers_get_are_planned_as_ever() -> None:
    nvidia, amd = detectors(host(GpuHost(True, ("nvidia",))), lambda: H200, lambda: NOTHING)
    assert plan(GpuRequest("auto"), 2, nvidia=nvidia, amd=amd).devices == ("GPU-0", "GPU-1")


def test_a_container_gets_an_amd_gpu_whose_groups_this_user_is_not_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    amd_gpu(tmp_path, 1, minor=128)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert amd_gpus(tmp_path).gpus == ()
    assert [gpu.render_minor for gpu in amd_for_containers(tmp_path).gpus] == [128]


def test_the_list_keeps_gpus_that_containers_cannot_get_with_the_reason() -> None:
    nvidia, amd = listed(host(PLAIN), lambda: H200, lambda: NOTHING)
    assert nvidia.gpus == H200.gpus
    assert "Container Toolkit" in nvidia.problem
    assert amd == NOTHING
    nvidia, _ = listed(host(GpuHost(True, ("nvidia",))), lambda: H200, lambda: NOTHING)
    assert nvidia == H200
