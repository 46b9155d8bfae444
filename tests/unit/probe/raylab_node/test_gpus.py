# ruff: noqa: N802 - the fake has the names of CUDA's own functions
from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raylab_node import gpus
from tests.unit.host.gpus.test_amd import cpu, gpu

ONE, TWO = UUID("5c0d9f13-9bb2-4a77-0d5b-1f6b6e3a0a01"), UUID("8e1a2b3c-5555-6666-7777-888888888888")


class FakeCuda:
    """The functions of libcuda that are used."""

    def __init__(self, *uuids: UUID, init: int = 0, lost: int | None = None) -> None:
        self.uuids, self.init, self.lost = uuids, init, lost

    def cuInit(self, flags: int) -> int:
        return self.init

    def cuDeviceGetCount(self, number: Any) -> int:
        number._obj.value = len(self.uuids)
        return 0

    def cuDeviceGet(self, device: Any, index: int) -> int:
        device._obj.value = index
        return 999 if index == self.lost else 0

    def cuDeviceGetName(self, name: Any, size: int, device: ctypes.c_int) -> int:
        name.value = b"NVIDIA H200"
        return 0

    def cuDeviceGetUuid_v2(self, identity: Any, device: ctypes.c_int) -> int:
        identity[:] = self.uuids[device.value].bytes
        return 0

    def cuGetErrorString(self, code: int, text: Any) -> int:
        text._obj.value = b"unknown error"
        return 0


def test_cudas_gpus_are_told_by_uuid_and_name() -> None:
    listed, problem = gpus.nvidia(lambda: FakeCuda(ONE, TWO))
    assert problem == ""
    assert listed == [{"gpu": str(ONE), "name": "NVIDIA H200"}, {"gpu": str(TWO), "name": "NVIDIA H200"}]


def no_library() -> Any:
    raise OSError("libcuda.so.1: cannot open shared object file")


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (no_library, "no CUDA driver here"),
        (lambda: FakeCuda(init=100), "sees no GPU"),
        (FakeCuda, "sees no GPU"),
        (lambda: FakeCuda(init=999), "does not start: unknown error (999)"),
        (lambda: FakeCuda(ONE, lost=0), "does not tell GPU 0: unknown error (999)"),
    ],
)
def test_why_there_is_no_gpu_is_told(load: Any, said: str) -> None:
    listed, problem = gpus.nvidia(load)
    assert listed == []
    assert said in problem


@pytest.fixture
def amd_machine(tmp_path: Path) -> Path:
    cpu(tmp_path, 0)
    gpu(tmp_path, 1, minor=129)
    gpu(tmp_path, 2, minor=128, gfx=90402)
    return tmp_path


def test_amds_gpus_are_those_whose_device_files_open(amd_machine: Path) -> None:
    def accessible(path: Path) -> bool:
        return path.name in ("kfd", "renderD128")

    assert gpus.amd(amd_machine, {}, accessible) == ([{"gpu": "renderD128", "name": "gfx942"}], "")


def test_what_hip_hides_is_not_seen(amd_machine: Path) -> None:
    def everything(path: Path) -> bool:
        return True

    both, _ = gpus.amd(amd_machine, {}, everything)
    assert [gpu["gpu"] for gpu in both] == ["renderD129", "renderD128"]
    second, _ = gpus.amd(amd_machine, {"HIP_VISIBLE_DEVICES": "1"}, everything)
    assert [gpu["gpu"] for gpu in second] == ["renderD128"]
    assert gpus.amd(amd_machine, {"HIP_VISIBLE_DEVICES": ""}, everything)[0] == []


def test_without_kfd_there_is_no_amd_gpu(tmp_path: Path) -> None:
    listed, problem = gpus.amd(tmp_path, {})
    assert listed == []
    assert "/dev/kfd" in problem


def test_the_answer_is_one_json_line(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(gpus, "_libcuda", lambda: FakeCuda(ONE))
    assert gpus.main(["nvidia"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"gpus": [{"gpu": str(ONE), "name": "NVIDIA H200"}], "problem": ""}
