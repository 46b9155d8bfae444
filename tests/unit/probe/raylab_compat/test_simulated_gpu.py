"""When NCCL is replaced by Gloo. The parts of Ray that are corrected are stood in for."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class TorchBackend:
    """Ray Train's: starts the process group with what the configuration says."""

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        worker_group.started.append(backend_config.backend)


def torch(cuda: str | None = None, hip: str | None = None) -> Any:
    """PyTorch, built for the CPU unless it has a version of CUDA or HIP."""
    return SimpleNamespace(__version__="2.10.0", version=SimpleNamespace(cuda=cuda, hip=hip))


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """raylab_compat.simulated_gpu, imported beside stand-ins for Ray."""
    callback, train = "ray.train.v2._internal.execution.callback", "ray.train.torch"
    for name in (callback, train):
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(".".join(parts[:end])))
    for base in ("ControllerCallback", "WorkerCallback"):
        setattr(sys.modules[callback], base, type(base, (), {}))
    config = SimpleNamespace(
        _TorchBackend=type("Backend", (TorchBackend,), {}),
        _is_backend_nccl=lambda backend: backend == "nccl",
    )
    monkeypatch.setattr(sys.modules[train], "config", config, raising=False)
    monkeypatch.delitem(sys.modules, "raylab_compat.simulated_gpu", raising=False)
    module = importlib.import_module("raylab_compat.simulated_gpu")
    monkeypatch.delitem(sys.modules, "raylab_compat.simulated_gpu")
    return SimpleNamespace(module=module, backend=config._TorchBackend)


def started_with(simulated: Any, backend: str | None, gpus: int = 1) -> str | None:
    """The backend with which a training that asks for this one, and so many GPUs a rank, is started."""
    asked = SimpleNamespace(backend=backend, init_method="env")
    simulated.module.SimulatedGpu().after_controller_start(SimpleNamespace(backend_config=asked))
    group = SimpleNamespace(started=[], get_resources_per_worker=lambda: {"GPU": gpus})
    simulated.backend().on_start(group, asked)
    (started,) = group.started
    return str(started) if started else None


@pytest.mark.parametrize(
    ("environment", "asked", "got"),
    [
        ({"RAYLAB_GPU": "simulated"}, None, "gloo"),
        ({"RAYLAB_GPU": "simulated"}, "nccl", "gloo"),
        ({"RAYLAB_GPU": "nvidia", "RAYLAB_GPU_SHARED": "1"}, None, "gloo"),
        ({"RAYLAB_GPU": "nvidia", "RAYLAB_GPU_SHARED": "1"}, "nccl", "gloo"),
        ({"RAYLAB_GPU": "nvidia", "RAYLAB_GPU_SHARED": "1"}, "mpi", "mpi"),
        ({"RAYLAB_GPU": "simulated", "RAYLAB_PATCHES_OFF": "simulated_gpu"}, None, None),
        ({"RAYLAB_GPU": "nvidia"}, None, None),
        ({"RAYLAB_GPU": "nvidia"}, "nccl", "nccl"),
    ],
)
def test_gloo_takes_nccls_place_where_nccl_cannot_work(
    simulated: Any,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    asked: str | None,
    got: str | None,
) -> None:
    for name in ("RAYLAB_GPU", "RAYLAB_GPU_SHARED", "RAYLAB_PATCHES_OFF"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "torch", torch(cuda="13.0"))
    assert started_with(simulated, asked) == got


@pytest.mark.parametrize("asked", [None, "nccl"])
@pytest.mark.parametrize("shared", ["", "1"], ids=["own", "shared"])
@pytest.mark.parametrize(("vendor", "build"), [("nvidia", "cuda"), ("amd", "rocm")])
def test_a_build_for_the_cpu_is_named_in_a_lab_with_gpus(
    simulated: Any, monkeypatch: pytest.MonkeyPatch, vendor: str, build: str, shared: str, asked: str | None
) -> None:
    """Also where workers share a GPU: Gloo works there on a build for the CPU, and the GPU then does not."""
    monkeypatch.setitem(sys.modules, "torch", torch())
    monkeypatch.setenv("RAYLAB_GPU", vendor)
    monkeypatch.setenv("RAYLAB_GPU_SHARED", shared)
    said = rf"PyTorch 2.10.0 of this lab is a build for the CPU.*{vendor} GPUs need the build {build}$"
    with pytest.raises(RuntimeError, match=said):
        started_with(simulated, asked)
    assert started_with(simulated, "gloo") == "gloo", "what asks for no GPU is no business of the build"
    assert started_with(simulated, None, gpus=0) is None


@pytest.mark.parametrize("vendor", ["simulated", "none"])
def test_a_lab_without_gpus_takes_any_build(
    simulated: Any, monkeypatch: pytest.MonkeyPatch, vendor: str
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch())
    monkeypatch.setenv("RAYLAB_GPU", vendor)
    assert started_with(simulated, "nccl") == ("gloo" if vendor == "simulated" else "nccl")
