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
        worker_group.append(backend_config.backend)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """raylab_compat.simulated_gpu, imported beside stand-ins for Ray."""
    callback, torch = "ray.train.v2._internal.execution.callback", "ray.train.torch"
    for name in (callback, torch):
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(".".join(parts[:end])))
    for base in ("ControllerCallback", "WorkerCallback"):
        setattr(sys.modules[callback], base, type(base, (), {}))
    config = SimpleNamespace(
        _TorchBackend=type("Backend", (TorchBackend,), {}),
        _is_backend_nccl=lambda backend: backend == "nccl",
    )
    monkeypatch.setattr(sys.modules[torch], "config", config, raising=False)
    monkeypatch.delitem(sys.modules, "raylab_compat.simulated_gpu", raising=False)
    module = importlib.import_module("raylab_compat.simulated_gpu")
    monkeypatch.delitem(sys.modules, "raylab_compat.simulated_gpu")
    return SimpleNamespace(module=module, backend=config._TorchBackend)


def started_with(simulated: Any, backend: str | None) -> str | None:
    """The backend with which a training that asks for this one is started."""
    asked = SimpleNamespace(backend=backend, init_method="env")
    simulated.module.SimulatedGpu().after_controller_start(SimpleNamespace(backend_config=asked))
    started: list[str | None] = []
    simulated.backend().on_start(started, asked)
    return started[0]


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
    assert started_with(simulated, asked) == got


NO_NCCL = "Distributed package doesn't have NCCL built in"


class NoNccl(TorchBackend):
    """Ray Train's where PyTorch is built without NCCL."""

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        raise RuntimeError(NO_NCCL)


@pytest.mark.parametrize(
    ("vendor", "version", "said"),
    [
        (
            "nvidia",
            (None, None),
            "raylab: PyTorch 2.10.0 of this lab is a build for the CPU.*nvidia.*cuda$",
        ),
        ("amd", (None, None), "raylab: PyTorch 2.10.0 of this lab is a build for the CPU.*amd.*rocm$"),
        ("nvidia", ("13.0", None), f"^{NO_NCCL}$"),
        ("amd", (None, "7.2"), f"^{NO_NCCL}$"),
        ("none", (None, None), f"^{NO_NCCL}$"),
    ],
)
def test_a_build_without_nccl_is_named_in_a_lab_with_gpus(
    simulated: Any, monkeypatch: pytest.MonkeyPatch, vendor: str, version: tuple[Any, Any], said: str
) -> None:
    torch = SimpleNamespace(__version__="2.10.0", version=SimpleNamespace(cuda=version[0], hip=version[1]))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv("RAYLAB_GPU", vendor)
    monkeypatch.setattr(simulated.backend, "on_start", NoNccl.on_start)
    with pytest.raises(RuntimeError, match=said):
        started_with(simulated, "nccl")
