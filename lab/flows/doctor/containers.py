"""Checks for a lab of containers, beyond an engine that answers. Pure functions of facts."""

from __future__ import annotations

from lab.flows.doctor.model import Containers, Tools
from lab.host.gpus import docker
from lab.topology import Check, Vendor


def compose(found: Containers) -> Check:
    """Checks that Compose is installed and new enough."""
    if found.error:
        return Check("compose", "failed", found.error, found.hint)
    return Check("compose", "passed", f"Compose {found.compose}")


def gpu_access(found: Containers, tools: Tools) -> Check:
    """Checks that containers can get the GPUs of this machine."""
    name = "GPUs in containers"
    seen = {Vendor.NVIDIA: tools.nvidia, Vendor.AMD: tools.amd}
    vendors = [vendor for vendor, detection in seen.items() if detection.gpus]
    if not vendors:
        return Check(name, "skipped", "this machine has none")
    if not found.gpus.answers:
        return Check(name, "skipped", "no Docker Engine answers")
    for vendor in vendors:
        problem, hint = docker.problem(vendor, found.gpus)
        if problem:
            return Check(name, "warning", f"{problem}; `--gpu auto` does without", hint)
    ways = {Vendor.NVIDIA: docker.toolkit(found.gpus), Vendor.AMD: "device files"}
    return Check(name, "passed", ", ".join(f"{vendor.value} by {ways[vendor]}" for vendor in vendors))


def container_checks(found: Containers, tools: Tools) -> tuple[Check, ...]:
    """Every check for the compose runtime beyond an engine."""
    return (compose(found), gpu_access(found, tools))
