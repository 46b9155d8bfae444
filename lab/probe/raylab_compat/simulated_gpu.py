"""Simulated and shared GPUs: a script that asks Ray Train for GPUs trains on them unchanged.

On a lab with simulated GPUs the nodes offer logical GPUs, so scheduling is real; there is no device behind
them. Two decisions of Ray Train (ray 2.60) rest on the logical GPUs alone and are corrected here:
`TorchTrainer` chooses NCCL, which needs devices, and `ray.train.torch.get_device()` answers `cuda:0`.
Where workers share a real GPU, NCCL would refuse the second rank on it: Gloo is used there too.
On real GPUs, shared or not, a training on PyTorch's build for the CPU fails with an error that names it.
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


class SimulatedGpu(ControllerCallback, WorkerCallback):
    """Gloo for NCCL in the controller, the CPU for `cuda:N` in the workers. Real GPUs: a better error."""

    def after_controller_start(self, train_run_context: Any) -> None:
        if not _is_torch(train_run_context.backend_config):
            return
        from ray.train.torch import config

        on_start = config._TorchBackend.on_start

        with_gloo = active("simulated_gpu")

        @functools.wraps(on_start)
        def on_start_as_the_lab_can(self: Any, worker_group: Any, backend_config: Any) -> None:
            asked, resources = backend_config.backend, worker_group.get_resources_per_worker()
            if resources.get("GPU", 0) > 0 if asked is None else config._is_backend_nccl(asked):
                if why := wrong_build():
                    raise RuntimeError(why)  # the last error of a job is what explains it
                backend_config.backend = "gloo" if with_gloo else asked
            on_start(self, worker_group, backend_config)

        if with_gloo or os.environ.get(GPU_VARIABLE) in IMAGES:
            config._TorchBackend.on_start = on_start_as_the_lab_can

    def after_init_train_context(self) -> None:
        from ray.train.v2._internal.execution.context import get_train_context

        simulated = active("simulated_gpu") and os.environ.get(GPU_VARIABLE) == "simulated"
        if not simulated or not _is_torch(get_train_context().train_run_context.backend_config):
            return
        from ray.air._internal import device_manager

        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a real GPU of the host stays out of a simulated lab
        device_manager._torch_device_manager = device_manager.CPUTorchDeviceManager()


def wrong_build() -> str:
    """The reason why PyTorch cannot use the GPUs of this lab; empty where its build can, or none are real."""
    import torch

    vendor = os.environ.get(GPU_VARIABLE, "")
    if vendor not in IMAGES or torch.version.cuda or torch.version.hip:
        return ""
    return (
        f"raylab: PyTorch {torch.__version__} of this lab is a build for the CPU, without NCCL;"
        f" its {vendor} GPUs need the build {IMAGES[vendor]}"
    )


def _is_torch(backend_config: Any) -> bool:
    return hasattr(backend_config, "init_method") and hasattr(backend_config, "backend")
