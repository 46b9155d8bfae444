"""A node as facts are read of it: its files, programs and GPUs, and what the controller told."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from raylab_node import gpus

PASS, WARN, EVICT, UNKNOWN = "PASS", "WARN", "EVICT", "UNKNOWN"

CPU = "cpu"
"""The device that stands for a node without its GPUs."""

SIMULATED = "simulated"

LOST = ("GPU_IS_LOST", "RESET_REQUIRED", "NOT_FOUND", "GPU_NOT_FOUND")
"""Errors of NVML (NVML_ERROR_...): the GPU has fallen off the bus, needs a reset, or is no longer listed."""


class NoFactsError(Exception):
    """Why something could not be read, and the state that follows from that."""

    def __init__(self, why: str, state: str = UNKNOWN) -> None:
        super().__init__(why)
        self.state = state


def lost(why: str) -> NoFactsError:
    """The GPU no longer answers its driver."""
    return NoFactsError(f"the GPU does not answer: {why}", EVICT)


@dataclass
class Node:
    """What facts are read of."""

    environ: Mapping[str, str]
    root: Path = Path("/")
    """Where its files begin."""
    load_nvml: Callable[[], Any] = lambda: import_module("pynvml")
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    heard: Mapping[str, Any] = field(default_factory=dict)
    """What the agent knows by talking to the controller: `peers`, `skew` and `doubt`."""
    store: Any = None
    """The client of the object store, once there is one."""
    _nvml: Any = None

    @property
    def vendor(self) -> str:
        """Vendor of the lab's GPUs: nvidia, amd, simulated or none."""
        return self.environ.get("RAYLAB_GPU", "none")

    def text(self, path: str) -> str:
        """A small file below the root. Raises NoFactsError."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError as error:
            raise NoFactsError(f"/{path}: {error.strerror}") from error

    def sysfs(self, gpu: str, name: str) -> str:
        """A file of an AMD GPU, called like `renderD128`. Raises NoFactsError."""
        folder = f"sys/class/drm/{gpu}/device"
        if not (self.root / folder).is_dir():
            raise lost(f"/{folder} is gone")
        return self.text(f"{folder}/{name}")

    def run(self, argv: Sequence[str], **variables: str) -> tuple[int, str]:
        """Exit code and output of a program, which lasts as long as its check may. Raises NoFactsError."""
        environ = {**self.environ, **variables}
        out, err, none = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
        try:
            ended = subprocess.run(argv, stdin=none, stdout=out, stderr=err, env=environ, check=False)
        except OSError as error:
            raise NoFactsError(f"{argv[0]}: {error.strerror}") from error
        return ended.returncode, ended.stdout.decode(errors="replace")

    def nvml(self) -> Any:
        """NVML's module, initialised. Raises NoFactsError."""
        if self.vendor != "nvidia":
            raise NoFactsError("only NVIDIA's driver tells it")
        if self._nvml is None:
            try:
                nvml = self.load_nvml()
                nvml.nvmlInit()
            except Exception as error:  # an ImportError, or its NVMLError
                raise NoFactsError(f"NVML does not start: {error}") from error
            self._nvml = nvml
        return self._nvml

    def ask(self, gpu: str | int, function: str, *constants: str) -> Any:
        """What NVML tells of a GPU, by its UUID or index. Raises NoFactsError.

        `constants` are names of NVML's, with whose values the function is called.
        """
        nvml = self.nvml()
        find = nvml.nvmlDeviceGetHandleByIndex if isinstance(gpu, int) else nvml.nvmlDeviceGetHandleByUUID
        try:
            answer = getattr(nvml, function)(find(gpu), *(getattr(nvml, name) for name in constants))
        except AttributeError as error:
            raise NoFactsError(f"this NVML has no {function}") from error
        except nvml.NVMLError as error:
            gone = getattr(error, "value", None) in {getattr(nvml, f"NVML_ERROR_{name}", "") for name in LOST}
            raise (lost if gone else NoFactsError)(f"{function}: {error}") from error
        return answer.decode(errors="replace") if isinstance(answer, bytes) else answer

    def devices(self, count: int) -> list[dict[str, str]]:
        """Name and model of each GPU, and of the node itself; `count` is the GPUs that Ray was told of."""
        models = {}
        if self.vendor == SIMULATED:
            models = {f"gpu-{index}": SIMULATED for index in range(count)}
        elif self.vendor == "amd" and count:
            visible, _ = gpus.amd(self.root, self.environ)
            models = {gpu["gpu"]: gpu["name"] for gpu in visible}
        elif self.vendor == "nvidia" and count:
            models = {uuid: self._word(uuid, "nvmlDeviceGetName") for uuid in self._uuids()}
        models[CPU] = self._processor()
        return [{"name": name, "model": model} for name, model in models.items()]

    def _uuids(self) -> list[str]:
        """The GPUs that CUDA_VISIBLE_DEVICES names, or all that NVML lists."""
        named = self.environ.get("CUDA_VISIBLE_DEVICES", "").replace(",", " ").split()
        try:
            listed = range(0 if named else self.nvml().nvmlDeviceGetCount())
        except NoFactsError:
            listed = range(0)
        return named or [uuid for index in listed if (uuid := self._word(index, "nvmlDeviceGetUUID"))]

    def _word(self, gpu: str | int, function: str) -> str:
        """What NVML tells of a GPU; empty of one that has fallen off the bus."""
        try:
            return str(self.ask(gpu, function))
        except NoFactsError:
            return ""

    def _processor(self) -> str:
        """The processor's name, or the machine's kind where the kernel tells none."""
        try:
            match = re.search(r"^model name\s*: *(.+)$", self.text("proc/cpuinfo"), re.MULTILINE)
        except NoFactsError:
            match = None
        return match[1].strip() if match else os.uname().machine
