"""NVIDIA's GPUs, asked for through NVML (the package nvidia-ml-py and the driver's libnvidia-ml)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import ModuleType
from typing import TypeVar

from lab.host.gpus.model import Detection, Gpu, detection
from lab.topology import Vendor

T = TypeVar("T")

LOOK = "look at the output of nvidia-smi"


def nvidia_gpus(load: Callable[[], ModuleType] | None = None) -> Detection:
    """NVIDIA's GPUs; one in MIG mode contributes its slices. `load` returns the NVML bindings."""
    try:
        nvml = (load or _load_pynvml)()
    except ImportError:
        return Detection(
            problem="the Python package nvidia-ml-py is missing", hint="pip install nvidia-ml-py"
        )
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return _no_nvml(nvml, error)
    try:
        return _nvml_gpus(nvml)
    except nvml.NVMLError as error:
        return Detection(problem=f"NVIDIA's driver reports: {error}", hint=LOOK)
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _load_pynvml() -> ModuleType:
    import pynvml

    bindings: ModuleType = pynvml
    return bindings


def _no_nvml(nvml: ModuleType, error: Exception) -> Detection:
    causes = (
        (
            nvml.NVMLError_LibraryNotFound,
            "NVIDIA's driver is not installed",
            "install the NVIDIA driver, which brings libnvidia-ml, then see that nvidia-smi lists the GPUs",
        ),
        (
            nvml.NVMLError_DriverNotLoaded,
            "NVIDIA's driver is installed but not loaded",
            "load the driver with `modprobe nvidia`, or reboot after installing it",
        ),
        (
            nvml.NVMLError_LibRmVersionMismatch,
            "NVIDIA's driver was updated while the old one is still loaded",
            "reboot this machine",
        ),
        (
            nvml.NVMLError_NoPermission,
            "this user may not open NVIDIA's device files",
            "look at the owner and mode of /dev/nvidia*",
        ),
    )
    for kind, problem, hint in causes:
        if isinstance(error, kind):
            return Detection(problem=problem, hint=hint)
    return Detection(problem=f"NVIDIA's driver reports: {error}", hint=LOOK)


def _nvml_gpus(nvml: ModuleType) -> Detection:
    gpus: list[Gpu] = []
    problems: list[tuple[str, str]] = []
    count = nvml.nvmlDeviceGetCount()
    for index in range(count):
        try:
            device = nvml.nvmlDeviceGetHandleByIndex(index)
            if not _mig_enabled(nvml, device):
                gpus.append(_nvml_gpu(nvml, device, index, _nvidia_nodes(nvml, device)))
            elif slices := list(_mig_slices(nvml, device, index)):
                gpus += slices
            else:
                why = f"GPU {index} ({_name(nvml, device)}) is in MIG mode and has no slice"
                problems.append((why, f"make slices: nvidia-smi mig -i {index} -cgi PROFILE -C"))
        except nvml.NVMLError as error:
            problems.append((f"GPU {index} is left out: {error}", LOOK))
    if not count:
        problems.append(("NVIDIA's driver is loaded but sees no GPU", LOOK))
    return detection(gpus, problems)


def _optional(nvml: ModuleType, function: str, device: object, default: T) -> T:
    """The answer to a question that not every GPU or driver can be asked, or `default`."""
    try:
        answer: T = getattr(nvml, function)(device)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return default
    return answer


def _mig_enabled(nvml: ModuleType, device: object) -> bool:
    current, _pending = _optional(nvml, "nvmlDeviceGetMigMode", device, (None, None))
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def _name(nvml: ModuleType, device: object) -> str:
    return str(_optional(nvml, "nvmlDeviceGetName", device, "NVIDIA GPU"))


def _mig_slices(nvml: ModuleType, device: object, index: int) -> Iterator[Gpu]:
    nodes = _nvidia_nodes(nvml, device)
    for position in range(nvml.nvmlDeviceGetMaxMigDeviceCount(device)):
        with suppress(nvml.NVMLError_NotFound):
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, position)
            yield _nvml_gpu(nvml, part, index, nodes)


def _nvml_gpu(nvml: ModuleType, device: object, index: int, nodes: tuple[str, ...]) -> Gpu:
    return Gpu(
        vendor=Vendor.NVIDIA,
        uuid=nvml.nvmlDeviceGetUUID(device),
        index=index,
        name=_name(nvml, device),
        memory_bytes=_nvml_memory(nvml, device),
        device_nodes=nodes,
    )


def _nvml_memory(nvml: ModuleType, device: object) -> int:
    """Bytes; 0 of a GPU that shares the machine's memory."""
    memory = _optional(nvml, "nvmlDeviceGetMemoryInfo", device, None)
    return int(memory.total) if memory is not None else 0


def _nvidia_nodes(nvml: ModuleType, device: object) -> tuple[str, ...]:
    """Its device files; none on WSL2, where all GPUs lie behind /dev/dxg."""
    minor = _optional(nvml, "nvmlDeviceGetMinorNumber", device, None)
    if minor is None:
        return ()
    return (f"/dev/nvidia{minor}", "/dev/nvidiactl", "/dev/nvidia-uvm")
