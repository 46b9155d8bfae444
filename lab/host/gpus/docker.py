"""Checks, before anything starts, if the Docker Engine of this machine can give GPUs to containers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from lab.host import command
from lab.host.gpus import Detection, Detector, amd_gpus, nvidia_gpus
from lab.host.reading import parse_json
from lab.topology import Vendor

ASK_SECONDS = 10.0

HOOK = "nvidia-container-runtime-hook"
"""The program of NVIDIA's Container Toolkit that the engine runs for a container with `device_ids`; its
presence on the engine's PATH is what makes the driver `nvidia` known to Docker."""

TOOLKIT = "nvidia-ctk"

INSTALL_TOOLKIT = (
    "install the package nvidia-container-toolkit (NVIDIA's install guide has its sources), then"
    " `sudo nvidia-ctk runtime configure --runtime=docker` and `sudo systemctl restart docker`"
)
CONFIGURE_TOOLKIT = (
    "`sudo nvidia-ctk runtime configure --runtime=docker`, then `sudo systemctl restart docker`"
)

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class GpuHost:
    """The engine's answer. Empty where there is none: that is another check's business."""

    answers: bool = False
    """True if the engine does."""
    runtimes: tuple[str, ...] = ()
    """The engine's container runtimes; the toolkit adds `nvidia`."""
    cdi: tuple[str, ...] = ()
    """Devices that the engine found in CDI specifications, such as `nvidia.com/gpu=0` (engine 28.2 on)."""
    programs: tuple[str, ...] = ()
    """HOOK and TOOLKIT, as far as they are on PATH."""
    desktop: bool = False
    """True for Docker Desktop, whose engine lies in a virtual machine."""


def gather(which: Callable[[str], str | None] = shutil.which, run: Run | None = None) -> GpuHost:
    """Ask the engine. Raises nothing."""
    docker = which("docker")
    if docker is None:
        return GpuHost()
    info = _info(docker, run or partial(command.run, timeout=ASK_SECONDS))
    devices = info.get("DiscoveredDevices") or ()
    return GpuHost(
        answers=bool(info.get("ServerVersion")),
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        cdi=tuple(
            sorted(str(device["ID"]) for device in devices if isinstance(device, dict) and "ID" in device)
        ),
        programs=tuple(name for name in (HOOK, TOOLKIT) if which(name)),
        desktop="Docker Desktop" in str(info.get("OperatingSystem", "")),
    )


def problem(vendor: Vendor, host: GpuHost) -> tuple[str, str]:
    """The reason why containers get no GPU of this vendor, and a hint; empty if they do, or if unknown."""
    if not host.answers:
        return "", ""
    if vendor is Vendor.NVIDIA and not toolkit(host):
        says = '(Docker: could not select device driver "nvidia")'
        if TOOLKIT in host.programs and not host.desktop:
            return (
                f"NVIDIA's Container Toolkit is installed, but Docker does not know it {says}",
                f"{CONFIGURE_TOOLKIT}; or use --runtime local",
            )
        return (
            f"NVIDIA's Container Toolkit is not installed, so containers get no GPU {says}",
            f"{INSTALL_TOOLKIT}; or use --runtime local",
        )
    if vendor is Vendor.AMD and host.desktop:
        return (
            "Docker Desktop runs containers in a virtual machine, which has no /dev/kfd",
            "use Docker Engine on Linux, or --runtime local",
        )
    return "", ""


def amd_for_containers(root: Path = Path("/")) -> Detection:
    """AMD's GPUs whatever groups this user is in: a container gets the groups that it needs."""
    return amd_gpus(root, accessible=Path.exists)


def detectors(
    ask: Callable[[], GpuHost] | None = None,
    nvidia: Detector = nvidia_gpus,
    amd: Detector = amd_for_containers,
) -> tuple[Detector, Detector]:
    """Detectors of the GPUs (NVIDIA's, AMD's) that containers can get; they ask the engine once."""
    host = cache(ask or gather)

    def reachable(vendor: Vendor, detect: Detector) -> Detection:
        detection = detect()
        if not detection.gpus:
            return detection
        why, todo = problem(vendor, host())
        return Detection(problem=why, hint=todo) if why else detection

    return (lambda: reachable(Vendor.NVIDIA, nvidia), lambda: reachable(Vendor.AMD, amd))


def listed(
    ask: Callable[[], GpuHost] | None = None,
    nvidia: Detector = nvidia_gpus,
    amd: Detector = amd_for_containers,
) -> tuple[Detection, Detection]:
    """All GPUs (NVIDIA's, AMD's) of this machine, with what keeps containers from them, if anything does."""
    detections = nvidia(), amd()
    reachable = [detect() for detect in detectors(ask, lambda: detections[0], lambda: detections[1])]
    both = [
        Detection(all_.gpus, some.problem, some.hint)
        for all_, some in zip(detections, reachable, strict=True)
    ]
    return both[0], both[1]


def toolkit(host: GpuHost) -> str:
    """The way in which Docker reaches NVIDIA's GPUs; empty if it cannot."""
    if "nvidia" in host.runtimes:
        return "runtime nvidia"
    if HOOK in host.programs and not host.desktop:
        return HOOK
    if any(device.startswith("nvidia.com/gpu") for device in host.cdi):
        return "CDI"
    return ""


def _info(docker: str, run: Run) -> dict[str, Any]:
    try:
        result = run((docker, "info", "--format", "{{json .}}"))
        value = parse_json(result.stdout) if result.returncode == 0 else None
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return value if isinstance(value, dict) else {}
