"""Needs of the Docker Engine of this machine to give GPUs to containers, asked before anything starts."""

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
    """Answers of the engine. Empty where it does not answer: that is another check's business."""

    answers: bool = False
    """True when the engine does."""
    runtimes: tuple[str, ...] = ()
    """The engine's container runtimes; the toolkit adds `nvidia`."""
    cdi: tuple[str, ...] = ()
    """Devices that the engine found in CDI specifications, such as `nvidia.com/gpu=0` (engine 28.2 on)."""
    programs: tuple[str, ...] = ()
    """HOOK and TOOLKIT, as far as they are on PATH."""
    desktop: bool = False
    """Docker Desktop: the engine lies in a virtual machine."""


def gather(which: Callable[[str], str | None] = shutil.which, run: Run | None = None) -> GpuHost:
    """Ask the engine. Raises nothing."""
    docker = which("docker")
    if docker is None:
        return GpuHost()
    ask = run or partial(command.run, timeout=ASK_SECONDS)
    info = _json(_output(ask, (docker, "info", "--format", "{{json .}}")))
    found = info.get("DiscoveredDevices") or ()
    return GpuHost(
        answers=bool(info.get("ServerVersion")),
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        cdi=tuple(sorted(str(each["ID"]) for each in found if isinstance(each, dict) and "ID" in each)),
        programs=tuple(name for name in (HOOK, TOOLKIT) if which(name)),
        desktop="Docker Desktop" in str(info.get("OperatingSystem", "")),
    )


def problem(vendor: Vendor, host: GpuHost) -> tuple[str, str]:
    """The reason why containers get no GPU of this vendor here, and its cure; empty when none is known."""
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
        found = detect()
        if not found.gpus:
            return found
        why, todo = problem(vendor, host())
        return Detection(problem=why, hint=todo) if why else found

    return (lambda: reachable(Vendor.NVIDIA, nvidia), lambda: reachable(Vendor.AMD, amd))


def listed(
    ask: Callable[[], GpuHost] | None = None,
    nvidia: Detector = nvidia_gpus,
    amd: Detector = amd_for_containers,
) -> tuple[Detection, Detection]:
    """All GPUs (NVIDIA's, AMD's) of this machine, with what keeps containers from them, if anything does."""
    found = nvidia(), amd()
    reachable = [detect() for detect in detectors(ask, lambda: found[0], lambda: found[1])]
    both = [
        Detection(all_.gpus, some.problem, some.hint) for all_, some in zip(found, reachable, strict=True)
    ]
    return both[0], both[1]


def toolkit(host: GpuHost) -> str:
    """Docker's way to NVIDIA's GPUs, or empty when it has none."""
    if "nvidia" in host.runtimes:
        return "runtime nvidia"
    if HOOK in host.programs and not host.desktop:
        return HOOK
    if any(device.startswith("nvidia.com/gpu") for device in host.cdi):
        return "CDI"
    return ""


def _json(text: str) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _output(run: Run, argv: Sequence[str]) -> str:
    try:
        result = run(argv)
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout if result.returncode == 0 else ""
