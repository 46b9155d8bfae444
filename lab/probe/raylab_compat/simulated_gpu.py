"""Simulated and shared GPUs: a script that asks Ray Train for GPUs trains on them unchanged.

On a lab with simulated GPUs the nodes offer logical GPUs, so scheduling is real; there is no device behind
them. Two decisions of Ray Train (ray 2.60) rest on the logical GPUs alone and are corrected here:
`TorchTrainer` chooses NCCL, which needs devices, and `ray.train.torch.get_device()` answers `cuda:0`.
Where workers share a real GPU, NCCL would refuse the second rank on it: Gloo is used there too.
On GPUs of their own only an error is changed: where PyTorch lacks NCCL it says which build that is.
Lightning's own choice of a device is corrected in `accelerator.py`.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from ray.train.v2._internal.execution.callback import ControllerCallback, WorkerCallback

from raylab_switches import active

GPU_VARIABLE = "RAYLAB_GPU"
"""Environment variable of the nodes that says what kind of GPUs the lab has."""

IMAGES = {"nvidia": "cuda", "amd": "rocm"}
"""Vendor of real GPUs -> the build of PyTorch that they need; the name of the lab's image ends so."""

NO_NCCL = "doesn't have NCCL built in"
"""Words of PyTorch's error where its build lacks NCCL (RCCL, for AMD)."""


class SimulatedGpu(ControllerCallback, WorkerCallback):
    """Gloo for NCCL in the controller, the CPU for `cuda:N` in the workers. Real GPUs: a better error."""

    def after_controller_start(self, train_run_context: Any) -> None:
        if not _is_torch(train_run_context.backend_config):
            return
        from ray.train.torch import config

        on_start = config._TorchBackend.on_start

        @functools.wraps(on_start)
        def on_start_with_gloo(self: Any, worker_group: Any, backend_config: Any) -> None:
            if backend_config.backend is None or config._is_backend_nccl(backend_config.backend):
                backend_config.backend = "gloo"
            on_start(self, worker_group, backend_config)

        @functools.wraps(on_start)
        def on_start_or_why(self: Any, worker_group: Any, backend_config: Any) -> None:
            try:
                on_start(self, worker_group, backend_config)
            except Exception as error:
                if NO_NCCL in str(error) and (why := wrong_build()):
                    raise RuntimeError(why) from None  # the last error of a job is what explains it
                raise

        if active("simulated_gpu"):
            config._TorchBackend.on_start = on_start_with_gloo
        elif os.environ.get(GPU_VARIABLE) in IMAGES:
            config._TorchBackend.on_start = on_start_or_why

    def after_init_train_context(self) -> None:
        from ray.train.v2._internal.execution.context import get_train_context

        simulated = active("simulated_gpu") and os.environ.get(GPU_VARIABLE) == "simulated"
        if not simulated or not _is_torch(get_train_context().train_run_context.backend_config):
            return
        from ray.air._internal import device_manager

        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a real GPU of the host stays out of a simulated lab
        device_manager._torch_device_manager = device_manager.CPUTorchDeviceManager()


def wrong_build() -> str:
    """The reason why PyTorch cannot use the GPUs of this lab; empty where its build can."""
    import torch

    if torch.version.cuda or torch.version.hip:
        return ""
    vendor = os.environ.get(GPU_VARIABLE, "")
    return (
        f"raylab: PyTorch {torch.__version__} of this lab is a build for the CPU, without NCCL;"
        f" its {vendor} GPUs need the build {IMAGES[vendor]}"
    )


def _is_torch(backend_config: Any) -> bool:
    return hasattr(backend_config, "init_method") and hasattr(backend_config, "backend")
