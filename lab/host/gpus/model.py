"""What a detector of GPUs answers: plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.topology import Vendor


@dataclass(frozen=True)
class Gpu:
    """One GPU, or one MIG slice of one."""

    vendor: Vendor
    uuid: str
    """`GPU-...` or `MIG-...` (NVIDIA); `GPU-<unique id>` (AMD), empty where the chip has none."""
    index: int
    """Position in NVML's order (a slice has its GPU's), or in HIP's order (AMD)."""
    name: str
    memory_bytes: int
    """0 when unknown."""
    device_nodes: tuple[str, ...] = ()
    """Device files that a process on this GPU opens."""
    render_minor: int | None = None
    """AMD: N of /dev/dri/renderDN."""
    groups: tuple[int, ...] = ()
    """AMD: ids of the groups that own the device files, in their order."""

    @property
    def label(self) -> str:
        """Name and memory, for a person."""
        return f"{self.name}, {self.memory_bytes / 1024**3:.0f} GiB" if self.memory_bytes else self.name


@dataclass(frozen=True)
class Detection:
    """What a detector found. `problem` says why a GPU, or all, are missing; `hint` says what to do."""

    gpus: tuple[Gpu, ...] = ()
    problem: str = ""
    hint: str = ""


Detector = Callable[[], Detection]

BRANDS = {Vendor.NVIDIA: "NVIDIA", Vendor.AMD: "AMD"}


def count(vendor: Vendor, number: int) -> str:
    """`1 NVIDIA GPU`, `2 NVIDIA GPUs`."""
    return f"{number} {BRANDS[vendor]} GPU{'' if number == 1 else 's'}"
