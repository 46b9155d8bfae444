"""Checks for a lab of containers, beyond an engine that answers. Pure functions of facts."""

from __future__ import annotations

from lab.flows.doctor.model import Containers, Tools
from lab.host.gpus import docker
from lab.topology import Check, Vendor


def compose(facts: Containers) -> Check:
    """Checks that Compose is installed and new enough."""
    if facts.error:
        return Check("compose", "failed", facts.error, facts.hint)
    return Check("compose", "passed", f"Compose {facts.compose}")


def gpu_access(facts: Containers, tools: Tools) -> Check:
    """Checks that containers can get the GPUs of this machine."""
    name = "GPUs in containers"
    seen = {Vendor.NVIDIA: tools.nvidia, Vendor.AMD: tools.amd}
    vendors = [vendor for vendor, detection in seen.items() if detection.gpus]
    if not vendors:
        return Check(name, "skipped", "this machine has no GPU that a lab can use")
    if not facts.gpus.answers:
        return Check(name, "skipped", "no Docker Engine answers")
    for vendor in vendors:
        problem, hint = docker.problem(vendor, facts.gpus)
        if problem:
            return Check(name, "warning", f"{problem}; `--gpu auto` does without", hint)
    ways = {Vendor.NVIDIA: docker.toolkit(facts.gpus), Vendor.AMD: "device files"}
    return Check(name, "passed", ", ".join(f"{vendor.value} by {ways[vendor]}" for vendor in vendors))


def container_checks(facts: Containers, tools: Tools) -> tuple[Check, ...]:
    """Every check for the compose runtime beyond an engine."""
    return (compose(facts), gpu_access(facts, tools))
