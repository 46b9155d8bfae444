"""Lists the GPUs that a process here can use, through the driver, as training does.

    python -m raylab_node.gpus nvidia

prints one JSON object: `gpus`, a list of {"gpu", "name"}, and `problem`, why there is none. `gpu` is the UUID
without its prefix (NVIDIA, a MIG slice too) or the render node, such as renderD128 (AMD). CUDA is asked, and
not nvidia-smi, because nvidia-smi does not obey CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE: the driver is there, and no GPU that this process may use."""

NAME_BYTES = 128
NO_DRIVER = "there is no CUDA driver here (libcuda.so.1)"


def nvidia(load: Callable[[], Any] | None = None) -> tuple[list[dict[str, str]], str]:
    """(GPUs, why none) as CUDA's driver API tells. `load` returns libcuda."""
    try:
        cuda = (load or _libcuda)()
    except OSError:
        return [], NO_DRIVER
    code = cuda.cuInit(0)
    if code == NO_DEVICE:
        return [], "CUDA's driver is here but sees no GPU"
    if code:
        return [], f"CUDA's driver does not start: {cuda_error(cuda, code)}"
    number = ctypes.c_int()
    if code := cuda.cuDeviceGetCount(ctypes.byref(number)):
        return [], f"CUDA's driver cannot count its GPUs: {cuda_error(cuda, code)}"
    visible: list[dict[str, str]] = []
    for index in range(number.value):
        device = ctypes.c_int()
        name, identity = ctypes.create_string_buffer(NAME_BYTES), (ctypes.c_ubyte * 16)()
        code = (
            cuda.cuDeviceGet(ctypes.byref(device), index)
            or cuda.cuDeviceGetName(name, NAME_BYTES, device)
            or cuda.cuDeviceGetUuid_v2(identity, device)  # of a MIG slice its own, not its GPU's
        )
        if code:
            return visible, f"CUDA's driver does not tell GPU {index}: {cuda_error(cuda, code)}"
        visible.append({"gpu": str(uuid.UUID(bytes=bytes(identity))), "name": name.value.decode()})
    return visible, "" if visible else "CUDA's driver is here but sees no GPU"


def amd(
    root: Path = Path("/"),
    environment: Mapping[str, str] = os.environ,
    accessible: Callable[[Path], bool] = lambda path: os.access(path, os.R_OK | os.W_OK),
) -> tuple[list[dict[str, str]], str]:
    """(GPUs, why none) in HIP's order: those of the kernel's topology whose device files can be opened."""
    topology = root / "sys/class/kfd/kfd/topology/nodes"
    if not accessible(root / "dev/kfd"):
        return [], "/dev/kfd is missing here, or may not be opened"
    openable: list[dict[str, str]] = []
    nodes = [node for node in topology.glob("*") if node.name.isdigit()] if topology.is_dir() else []
    for node in sorted(nodes, key=lambda node: int(node.name)):
        values = _numbers(node / "properties")
        render = f"renderD{values.get('drm_render_minor', 0)}"
        if values.get("simd_count", 0) > 0 and accessible(root / "dev/dri" / render):
            openable.append({"gpu": render, "name": _gfx(values.get("gfx_target_version", 0))})
    visible = environment.get("HIP_VISIBLE_DEVICES")
    if visible is not None:
        wanted = [int(part) for part in visible.split(",") if part.strip().isdigit()]
        openable = [openable[index] for index in wanted if index < len(openable)]
    return openable, "" if openable else "no /dev/dri/renderD of a GPU can be opened here"


def main(arguments: list[str]) -> int:
    """Print what `arguments[0]`, `nvidia` or `amd`, has here."""
    visible, problem = amd() if arguments[:1] == ["amd"] else nvidia()
    print(json.dumps({"gpus": visible, "problem": problem}))
    return 0


def _libcuda() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def cuda_error(cuda: Any, code: int) -> str:
    """An error of CUDA's driver in words, with its number."""
    text = ctypes.c_char_p()
    cuda.cuGetErrorString(code, ctypes.byref(text))
    return f"{(text.value or b'unknown error').decode()} ({code})"


def _gfx(version: int) -> str:
    """LLVM's name of the chip: 90010 is gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _numbers(path: Path) -> dict[str, int]:
    """The `name value` lines of a topology file; none of a node that a container may not see."""
    try:
        pairs = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
