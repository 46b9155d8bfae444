"""NVML's real bindings and the probe on CUDA's driver API, over libraries whose machine is a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.extension import probes
from tests.compiler import needs_gcc
from tests.conftest import ROOT
from tests.nvidia import GPUS, SLICES, SOURCES, Machine, build

pytestmark = needs_gcc

DETECT = (
    "import dataclasses, json; from lab.host.gpus import nvidia_gpus;"
    " print(json.dumps(dataclasses.asdict(nvidia_gpus())))"
)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lib")
    build(folder)
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "state")


def run(libraries: Path, machine: Machine, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(libraries), "FAKE_NVIDIA": str(machine.path)}
    path = os.pathsep.join(map(str, (ROOT, *probes())))
    return subprocess.run(
        argv,
        env={**environment, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def detected(libraries: Path, machine: Machine) -> Any:
    return json.loads(run(libraries, machine, sys.executable, "-c", DETECT).stdout)


def seen(libraries: Path, machine: Machine, **variables: str) -> Any:
    done = run(libraries, machine, sys.executable, "-m", "raylab_node.gpus", "nvidia", **variables)
    return json.loads(done.stdout)


def test_the_machines_gpus_are_detected(libraries: Path, machine: Machine) -> None:
    machine.has(*GPUS)
    document = detected(libraries, machine)
    assert [gpu["uuid"] for gpu in document["gpus"]] == list(GPUS)
    assert document["gpus"][7]["device_nodes"][0] == "/dev/nvidia7"
    assert document["gpus"][0]["memory_bytes"] == 81559 << 20
    machine.remove()
    assert detected(libraries, machine)["problem"] == "NVIDIA's driver is installed but not loaded"


def test_a_lost_gpu_and_one_without_an_optional_function(libraries: Path, machine: Machine) -> None:
    machine.without = ("nvmlDeviceGetMinorNumber", "nvmlDeviceGetMemoryInfo")
    machine.has(*GPUS[:2])
    machine.change(GPUS[0], lost=1)
    document = detected(libraries, machine)
    assert document["problem"] == "GPU 0 is left out: GPU is lost"
    (gpu,) = document["gpus"]
    assert (gpu["uuid"], gpu["memory_bytes"], gpu["device_nodes"]) == (GPUS[1], 0, [])


def test_a_gpu_in_mig_mode_is_its_slices_for_nvml_and_for_cuda(libraries: Path, machine: Machine) -> None:
    machine.has(*GPUS[:2], slices=SLICES[:2])
    assert [gpu["uuid"] for gpu in detected(libraries, machine)["gpus"]] == [*SLICES[:2], GPUS[1]]
    gpus = seen(libraries, machine)["gpus"]
    assert [gpu["gpu"] for gpu in gpus] == [uuid[4:] for uuid in (GPUS[1], *SLICES[:2])]


def test_cuda_obeys_its_variable_and_loses_what_is_lost(libraries: Path, machine: Machine) -> None:
    machine.has(*GPUS[:2])
    document = seen(libraries, machine, CUDA_VISIBLE_DEVICES=GPUS[1])
    assert document == {"gpus": [{"gpu": GPUS[1][4:], "name": "NVIDIA H100 80GB HBM3"}], "problem": ""}
    machine.change(GPUS[1], lost=1)
    assert seen(libraries, machine, CUDA_VISIBLE_DEVICES=GPUS[1])["problem"].endswith("sees no GPU")


def test_what_cannot_be_computed_is_one_line(libraries: Path, machine: Machine) -> None:
    machine.has(GPUS[0])
    done = run(libraries, machine, sys.executable, "-m", "raylab_health.pcie_copy")
    assert (done.returncode, done.stdout) == (1, "CUDA's driver: operation not supported (801)\n")


def test_nvidia_smi_shows_what_the_file_says(libraries: Path, machine: Machine) -> None:
    machine.has(GPUS[0], slices=SLICES[:1])
    machine.change(GPUS[0], ecc=3, utilization=97)
    smi = str(SOURCES / "nvidia-smi")
    listed = run(libraries, machine, smi, "-L").stdout.splitlines()
    assert listed[0] == f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {GPUS[0]})"
    assert SLICES[0] in listed[1]
    row = run(libraries, machine, smi).stdout.splitlines()[5]
    assert "1024MiB / 81559MiB" in row
    assert row.split()[-3:-1] == ["97%", "3"]
    machine.change(GPUS[0], lost=1)
    assert "ERR! GPU is lost" in run(libraries, machine, smi).stdout
