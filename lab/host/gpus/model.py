"""GPUs as they are asked for and found: plain data."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.host.files import HOME_VARIABLE, home
from lab.topology import Vendor, device_name

AUTO = "auto"
CHOICES = ("nvidia", "amd", "simulated", "none", AUTO)
"""The values of `--gpu`."""

BRANDS = {Vendor.NVIDIA: "NVIDIA", Vendor.AMD: "AMD"}


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
        return f"{self.name}, {self.memory_bytes / 1024**3:.0f} GiB" if self.memory_bytes else self.name

    @property
    def device(self) -> str:
        """The GPU's name on this machine; see GpuAssignment.device."""
        return device_name(self.uuid or str(self.index), self.device_nodes)


@dataclass(frozen=True)
class GpuHolder:
    """A lab that has a GPU."""

    lab: str
    folder: str
    """The folder of its notes, by which labs of equal name are told apart."""

    def __str__(self) -> str:
        return f"lab {self.lab}{self._elsewhere and f' of {self._elsewhere}'}"

    @property
    def hint(self) -> str:
        """The command that frees what it has."""
        variable = self._elsewhere and f"{HOME_VARIABLE}={shlex.quote(self._elsewhere)} "
        return f"`{variable}labctl down --lab {self.lab}` frees it"

    @property
    def _elsewhere(self) -> str:
        """Its RAYLAB_HOME, where that is another one."""
        parent = Path(self.folder).parent
        return "" if parent == home() else str(parent)


@dataclass(frozen=True)
class GpuRequest:
    """The GPUs that are asked for, under the names of labctl's options."""

    gpu: str = AUTO
    """One of CHOICES."""
    gpus: tuple[str, ...] = ()
    """Names of GPUs (see lab.host.gpus.choosing), in the workers' order."""
    share_gpu: bool = False
    """True lets several workers have one GPU where there are fewer GPUs than workers."""


@dataclass(frozen=True)
class Detection:
    """The GPUs that were found. `problem` says why one, or all, are missing; `hint` says what to do."""

    gpus: tuple[Gpu, ...] = ()
    problem: str = ""
    hint: str = ""


Detector = Callable[[], Detection]
"""Looks for GPUs of one vendor. It raises nothing: that there is no driver is a fact."""


def detection(gpus: Sequence[Gpu], problems: Sequence[tuple[str, str]]) -> Detection:
    """A Detection with several problems, each with its hint; the first hint counts."""
    hint = problems[0][1] if problems else ""
    return Detection(tuple(gpus), "; ".join(problem for problem, _ in problems), hint)
