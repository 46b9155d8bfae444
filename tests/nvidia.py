"""NVIDIA's GPUs where there are none: the fakes of tests/fakes/nvidia, and the file that they read."""

from __future__ import annotations

import functools
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conftest import NEEDS_FAKE_NVIDIA
from tests.docker import ANSWER_SECONDS, needs_docker

HOME = Path("/run/fake-nvidia")
"""Where `.ci/engine start` builds them; the engine that it starts has the hook from there."""

SOURCES = Path(__file__).resolve().parent / "fakes" / "nvidia"

GPUS = tuple(f"GPU-5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a0{i}" for i in range(8))
SLICES = tuple(f"MIG-a1b20000-0000-5000-8000-00000000000{i}" for i in range(7))

H100 = {"name": "NVIDIA H100 80GB HBM3", "memory": 81559, "used": 1024, "utilization": 42, "temperature": 40}
SLICE = {"name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "memory": 9984}


@dataclass
class Machine:
    """The file of machine.h. What a test changes is seen by the next question to the driver."""

    path: Path = HOME / "state"
    without: tuple[str, ...] = ()
    """Functions of NVML that the driver does not have."""
    gpus: dict[str, dict[str, object]] = field(default_factory=dict)

    def has(self, *uuids: str, slices: tuple[str, ...] = ()) -> None:
        """Have these GPUs, all healthy; `slices` are those of the first one."""
        self.gpus = {uuid: dict(H100) for uuid in uuids}
        self.gpus |= {uuid: {**SLICE, "parent": uuids[0]} for uuid in slices}
        self.write()

    def change(self, uuid: str, **fields: object) -> None:
        """Change what a GPU tells of itself, such as `ecc=1` or `lost=1`."""
        self.gpus[uuid] |= fields
        self.write()

    def write(self) -> None:
        """Replace the file in one step: it is read at any time. Containers have its folder mounted."""
        lines = ["driver=580.65.06", f"without={' '.join(self.without)}"]
        for uuid, fields in self.gpus.items():
            lines += [f"[{uuid}]", *(f"{name}={value}" for name, value in fields.items())]
        new = self.path.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        os.replace(new, self.path)

    def remove(self) -> None:
        """Be a machine without a driver again."""
        self.path.unlink(missing_ok=True)


def build(folder: Path) -> None:
    """Compile both libraries into a folder."""
    for source, library in (("nvml.c", "libnvidia-ml.so.1"), ("cuda.c", "libcuda.so.1")):
        argv = ("gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(folder / library))
        subprocess.run((*argv, str(SOURCES / source)), check=True)


@functools.cache
def why_no_hook(image: str) -> str:
    """Why the engine does not have the hook, or nothing: it knows the driver, and refuses what is no GPU."""
    argv = ("docker", "run", "--rm", "--gpus", "device=GPU-none", image, "true")
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    last = ended.stderr.strip().splitlines()[-1:] or ["it knows a GPU that is none"]
    refused = "unknown device" in ended.stderr or "driver not loaded" in ended.stderr
    return "" if refused and (HOME / "bin").is_dir() else last[0]


def needs_fake_nvidia(image: str) -> None:
    """Skip the test where the engine was not started by .ci/engine, or without gcc."""
    needs_docker()
    if why := why_no_hook(image):
        pytest.skip(f"{NEEDS_FAKE_NVIDIA}{why}")
