# ruff: noqa: N802 - the fake has the names of NVIDIA's own module
from __future__ import annotations

from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pynvml
import pytest

from lab.host.gpus import Detection, Gpu, GpuRequest, nvidia_gpus, plan
from lab.topology import Vendor

GIB = 1024**3


def device(number: int, name: str = "NVIDIA H200", gib: int = 140, **more: Any) -> SimpleNamespace:
    """A GPU; `slices` (a list of devices or None for an unused place) puts it into MIG mode."""
    return SimpleNamespace(
        uuid=f"GPU-{number:08x}", name=name, total=gib * GIB, minor=number, slices=None, lost=False, **more
    )


def mig(number: int, places: list[str | None]) -> SimpleNamespace:
    """A GPU in MIG mode with a slice of 10 GiB in every place that has a profile."""
    parent = device(number, "NVIDIA A100")
    parent.slices = [
        place
        and SimpleNamespace(
            uuid=f"MIG-{number:04x}-{i}", name=f"NVIDIA A100 MIG {place}", total=10 * GIB, slices=None
        )
        for i, place in enumerate(places)
    ]
    return parent


class FakeNvml:
    """The functions of pynvml that are used; the errors are its own."""

    NVMLError = pynvml.NVMLError
    NVMLError_LibraryNotFound = pynvml.NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = pynvml.NVMLError_DriverNotLoaded
    NVMLError_LibRmVersionMismatch = pynvml.NVMLError_LibRmVersionMismatch
    NVMLError_NoPermission = pynvml.NVMLError_NoPermission
    NVMLError_NotSupported = pynvml.NVMLError_NotSupported
    NVMLError_FunctionNotFound = pynvml.NVMLError_FunctionNotFound
    NVMLError_NotFound = pynvml.NVMLError_NotFound
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, *devices: SimpleNamespace, init: Exception | None = None) -> None:
        self.devices, self.init, self.opened = devices, init, 0

    def nvmlInit(self) -> None:
        if self.init:
            raise self.init
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> SimpleNamespace:
        if self.devices[index].lost:
            raise pynvml.NVMLError_GpuIsLost
        return self.devices[index]

    def nvmlDeviceGetMigMode(self, handle: SimpleNamespace) -> tuple[int, int]:
        if handle.name == "NVIDIA GeForce RTX 4090":
            raise pynvml.NVMLError_NotSupported
        return (1, 1) if handle.slices is not None else (0, 1)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: SimpleNamespace) -> int:
        return len(handle.slices)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: SimpleNamespace, place: int) -> Any:
        if handle.slices[place] is None:
            raise pynvml.NVMLError_NotFound
        return handle.slices[place]

    def nvmlDeviceGetUUID(self, handle: SimpleNamespace) -> str:
        return str(handle.uuid)

    def nvmlDeviceGetName(self, handle: SimpleNamespace) -> str:
        return str(handle.name)

    def nvmlDeviceGetMemoryInfo(self, handle: SimpleNamespace) -> SimpleNamespace:
        if handle.total == 0:
            raise pynvml.NVMLError_NotSupported
        return SimpleNamespace(total=handle.total)

    def nvmlDeviceGetMinorNumber(self, handle: SimpleNamespace) -> int:
        if handle.minor is None:  # WSL2
            raise pynvml.NVMLError_NotSupported
        return int(handle.minor)


def nvidia(*devices: SimpleNamespace, init: Exception | None = None) -> Detection:
    nvml = FakeNvml(*devices, init=init)
    detection = nvidia_gpus(lambda: cast("ModuleType", nvml))
    assert nvml.opened == 0, "NVML was left open"
    return detection


def test_every_nvidia_gpu_is_found_with_its_uuid_memory_and_device_nodes() -> None:
    assert nvidia(device(0), device(3, "NVIDIA GeForce RTX 4090", 24)).gpus == (
        Gpu(
            Vendor.NVIDIA,
            "GPU-00000000",
            0,
            "NVIDIA H200",
            140 * GIB,
            ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"),
        ),
        Gpu(
            Vendor.NVIDIA,
            "GPU-00000003",
            1,
            "NVIDIA GeForce RTX 4090",
            24 * GIB,
            ("/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm"),
        ),
    )


def test_under_wsl2_a_gpu_has_no_device_node_of_its_own_and_is_found_all_the_same() -> None:
    there = device(0)
    there.minor = None
    detection = nvidia(there)
    assert [(gpu.uuid, gpu.device_nodes) for gpu in detection.gpus] == [("GPU-00000000", ())]
    assert detection.problem == ""


@pytest.mark.parametrize(
    ("function", "field", "instead"),
    [
        ("nvmlDeviceGetMinorNumber", "device_nodes", ()),
        ("nvmlDeviceGetMemoryInfo", "memory_bytes", 0),
        ("nvmlDeviceGetName", "name", "NVIDIA GPU"),
        ("nvmlDeviceGetMigMode", "uuid", "GPU-00000000"),
    ],
)
def test_a_driver_without_an_optional_function_lacks_one_field_and_no_gpu(
    monkeypatch: pytest.MonkeyPatch, function: str, field: str, instead: Any
) -> None:
    def lacking(self: FakeNvml, handle: SimpleNamespace) -> Any:
        raise pynvml.NVMLError_FunctionNotFound

    whole = nvidia(device(0)).gpus[0]
    monkeypatch.setattr(FakeNvml, function, lacking)
    detection = nvidia(device(0))
    assert detection.problem == ""
    assert detection.gpus == (replace(whole, **{field: instead}),)


def test_a_gpu_in_mig_mode_contributes_its_slices_and_not_itself() -> None:
    detection = nvidia(mig(0, ["1g.10gb", None, "1g.10gb"]), device(1))
    assert [gpu.uuid for gpu in detection.gpus] == ["MIG-0000-0", "MIG-0000-2", "GPU-00000001"]
    assert [gpu.index for gpu in detection.gpus] == [0, 0, 1]
    assert detection.gpus[0].device_nodes[0] == "/dev/nvidia0"
    assert detection.problem == ""


def test_a_gpu_in_mig_mode_without_slices_is_a_problem_with_the_command_that_makes_them() -> None:
    detection = nvidia(mig(0, [None, None]))
    assert detection.gpus == ()
    assert "no slice" in detection.problem
    assert "nvidia-smi mig -i 0" in detection.hint


def test_a_lost_gpu_is_left_out_and_named() -> None:
    lost = device(1)
    lost.lost = True
    detection = nvidia(device(0), lost, device(2))
    assert [gpu.index for gpu in detection.gpus] == [0, 2]
    assert "GPU 1 is left out: GPU is lost" in detection.problem


def test_a_gpu_without_memory_of_its_own_has_an_unknown_size() -> None:
    gpu = nvidia(device(0, "NVIDIA GB10", 0)).gpus[0]
    assert gpu.memory_bytes == 0
    assert gpu.label == "NVIDIA GB10"


@pytest.mark.parametrize(
    ("init", "problem", "hint"),
    [
        (pynvml.NVMLError_LibraryNotFound(), "not installed", "install the NVIDIA driver"),
        (pynvml.NVMLError_DriverNotLoaded(), "installed but not loaded", "modprobe nvidia"),
        (pynvml.NVMLError_LibRmVersionMismatch(), "updated while", "reboot"),
        (pynvml.NVMLError_NoPermission(), "may not open", "/dev/nvidia"),
        (pynvml.NVMLError_Unknown(), "Unknown Error", "nvidia-smi"),
        (None, "sees no GPU", "nvidia-smi"),
    ],
)
def test_why_nvml_has_no_gpu_is_told_apart(init: Exception | None, problem: str, hint: str) -> None:
    detection = nvidia(init=init)
    assert detection.gpus == ()
    assert problem in detection.problem
    assert hint in detection.hint


def test_missing_nvml_bindings_are_a_problem_not_a_crash() -> None:
    def load() -> Any:
        raise ImportError("No module named 'pynvml'")

    assert "nvidia-ml-py" in nvidia_gpus(load).problem


def test_mig_slices_serve_as_gpus() -> None:
    both = nvidia(mig(0, ["1g.10gb", "1g.10gb"]))
    made = plan(GpuRequest("nvidia"), 2, nvidia=lambda: both)
    assert [a.gpu for a in made.assignments] == ["MIG-0000-0", "MIG-0000-1"]
