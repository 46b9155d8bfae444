"""labctl health: what a person sees of the board, on a controller in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.api.health import AgentReport, Device, Result, Symptom
from tests.unit.cli.fakes import Labctl
from tests.unit.cli.queues import QueueLab


@pytest.fixture
def world(labctl: Labctl, tmp_path: Path) -> QueueLab:
    labctl.ok("up", "--gpu", "simulated")
    return QueueLab(labctl, tmp_path / "queue")


def report(world: QueueLab, state: str) -> None:
    """What the agent of a worker says."""
    ecc = Result("ecc", state, "3 errors" if state != "PASS" else "")
    gpu = Device("gpu-0", "simulated", (ecc, Result("dcgm", "UNKNOWN", "there is none")))
    cpu = Device("cpu", "a processor", (Result("disk-latency", "PASS", value=1.5, unit="ms"),))
    world.health.report(AgentReport("ray-worker-0", "1", "", (gpu, cpu)))


def test_a_lab_whose_agents_have_not_reported_says_so(world: QueueLab) -> None:
    assert "no health agent has reported yet" in world.labctl.ok("health")


def test_devices_are_shown_with_their_state_and_the_checks_that_fail(world: QueueLab) -> None:
    report(world, "EVICT")
    shown = world.labctl.ok("health")
    assert "EVICT" in shown
    assert "3 errors" in shown
    assert "disk-latency" not in shown
    assert "dcgm" not in shown
    every = world.labctl.ok("health", "--all")
    assert "1.5 ms" in every
    assert "there is none" in every


def test_json_has_every_check(world: QueueLab) -> None:
    report(world, "EVICT")
    document = world.labctl.json("health")
    assert [(device["device"], device["state"]) for device in document["devices"]] == [
        ("gpu-0", "EVICT"),
        ("cpu", "PASS"),
    ]
    checks = {check["name"]: check["message"] for check in document["devices"][0]["checks"]}
    assert checks == {"ecc": "3 errors", "dcgm": "there is none"}


def test_what_a_fault_lets_a_check_say_is_told(world: QueueLab) -> None:
    report(world, "PASS")
    world.labctl.lab.health.symptom(Symptom("ray-worker-0", "gpu-0", "ecc", "EVICT"))
    result = world.labctl("health")
    assert "a fault lets ecc of ray-worker-0 gpu-0 say EVICT" in result.output


def test_status_has_the_worst_state_of_each_node(world: QueueLab) -> None:
    report(world, "EVICT")
    (gpu, cpu) = world.labctl.json("status")["health"]
    assert (gpu["node"], gpu["device"], gpu["state"], gpu["reason"]) == (
        "ray-worker-0",
        "gpu-0",
        "EVICT",
        "ecc",
    )
    assert cpu["state"] == "PASS"
