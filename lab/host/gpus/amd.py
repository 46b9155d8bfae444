"""AMD's GPUs, read from the kernel's topology in sysfs: no ROCm installation is needed for that.

`drm_render_minor` there is the one place that says which /dev/dri/renderD belongs to which GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lab.host.gpus.model import Detection, Gpu, detection
from lab.topology import Vendor

MIN_MEMORY_BYTES = 1024**3
"""A GPU with less is the processor's built-in one (its share of main memory is 512 MB as delivered)."""

KFD = "/dev/kfd"


def amd_gpus(
    root: Path = Path("/"),
    accessible: Callable[[Path], bool] = lambda path: os.access(path, os.R_OK | os.W_OK),
    group: Callable[[Path], int] = lambda path: path.stat().st_gid,
) -> Detection:
    """AMD's GPUs, in HIP's order.

    `root` holds sys and dev; `accessible` says if this user may open a file, `group` gives the group that
    owns it (OSError: unknown). The topology's processor nodes have `simd_count` 0; a node that a container
    may not see cannot be read.
    """
    topology = root / "sys/class/kfd/kfd/topology/nodes"
    if not topology.is_dir():
        return Detection(
            problem="AMD's kernel driver is not loaded",
            hint="load the driver with `modprobe amdgpu`, or install ROCm's (amdgpu with KFD)",
        )
    gpus: list[Gpu] = []
    problems: list[tuple[str, str]] = []
    nodes = [
        (folder, properties)
        for folder, properties in _kfd_nodes(topology)
        if properties.get("simd_count", 0) > 0
    ]
    for index, (folder, properties) in enumerate(nodes):
        gpu = _amd_gpu(folder, properties, index)
        if left_out := _left_out(gpu, root, accessible):
            why, hint = left_out
            problems.append((f"GPU {index} ({gpu.name}) is left out: {why}", hint))
        else:
            gpus.append(replace(gpu, groups=_groups(root, gpu.device_nodes, group)))
    if not nodes:
        problems.append(("AMD's kernel driver is loaded but sees no GPU", "look at the kernel's log: dmesg"))
    return detection(gpus, problems)


def _left_out(gpu: Gpu, root: Path, accessible: Callable[[Path], bool]) -> tuple[str, str] | None:
    """The reason why a GPU cannot be used, and a hint; None if it can."""
    if 0 < gpu.memory_bytes < MIN_MEMORY_BYTES:
        return f"built into the processor, {gpu.memory_bytes // 1024**2} MiB", "use a separate GPU"
    for node in gpu.device_nodes:
        if not (root / node.lstrip("/")).exists():
            driver = "load the kernel driver with `sudo modprobe amdgpu`"
            return f"{node} is missing", f"{driver}; a container or virtual machine must be started with them"
    for node in gpu.device_nodes:
        if not accessible(root / node.lstrip("/")):
            hint = "join the groups that own it (`render` and `video`), then log in again"
            return f"this user may not open {node}", hint
    return None


def _kfd_nodes(topology: Path) -> Iterator[tuple[Path, dict[str, int]]]:
    folders = [folder for folder in topology.iterdir() if folder.name.isdigit()]
    for folder in sorted(folders, key=lambda folder: int(folder.name)):
        with suppress(OSError):
            yield folder, _numbers(folder / "properties")


def _numbers(path: Path) -> dict[str, int]:
    """The `name value` lines of a topology file. Raises OSError."""
    pairs = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _amd_gpu(folder: Path, properties: Mapping[str, int], index: int) -> Gpu:
    unique = properties.get("unique_id", 0)
    minor = properties.get("drm_render_minor", 0)
    return Gpu(
        vendor=Vendor.AMD,
        uuid=f"GPU-{unique:016x}" if unique else "",
        index=index,
        name=_gfx(properties.get("gfx_target_version", 0)),
        memory_bytes=_amd_memory(folder),
        device_nodes=(KFD, f"/dev/dri/renderD{minor}") if minor else (KFD,),
        render_minor=minor or None,
    )


def _groups(root: Path, nodes: tuple[str, ...], group: Callable[[Path], int]) -> tuple[int, ...]:
    owners: list[int] = []
    for node in nodes:
        with suppress(OSError):
            owners.append(group(root / node.lstrip("/")))
    return tuple(owners)


def _gfx(version: int) -> str:
    """LLVM's name of the chip: 90010 is gfx90a. Two decimal digits each for minor and stepping."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}" if version else "AMD GPU"


def _amd_memory(folder: Path) -> int:
    """Bytes in the frame buffer banks (heap types 1 and 2, public and private)."""
    total = 0
    for bank in folder.glob("mem_banks/*/properties"):
        with suppress(OSError):
            numbers = _numbers(bank)
            if numbers.get("heap_type") in (1, 2):
                total += numbers.get("size_in_bytes", 0)
    return total
