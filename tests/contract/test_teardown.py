"""How a lab ends. These tests come last: each takes the lab down."""

from __future__ import annotations

import pytest

from lab.errors import LabDownError
from lab.services import STORE
from lab.topology import Progress, State
from tests.contract.harness import Harness

WORKER = "ray-worker-1"


def test_down_stops_a_half_dead_lab_whole_and_keeps_its_objects(lab: Harness) -> None:
    lab.put("contract/down", b"written before down")
    services = {service.service for service in lab.runtime().status().services}
    leftovers = lab.leftovers()
    lab.runtime().pause(WORKER)
    lab.runtime().kill("ray-worker-0")

    progress: list[Progress] = []
    stopped = lab.runtime().down(on_progress=progress.append)
    assert set(stopped) == services - {"ray-worker-0"}
    assert {step.service for step in progress if step.state is State.EXITED} >= set(stopped)
    status = lab.runtime().status()
    assert not status.up
    assert all(service.state in (State.ABSENT, State.EXITED) for service in status.services)
    assert leftovers() == []
    with pytest.raises(LabDownError):
        lab.runtime().endpoints()
    with pytest.raises(LabDownError):
        lab.runtime().start(STORE)
    assert lab.runtime().down() == ()

    assert lab.runtime().up(lab.spec).healthy
    assert lab.get("contract/down") == b"written before down"


def test_the_objects_can_be_deleted_after_down(lab: Harness) -> None:
    lab.put("contract/later", b"written before down")
    lab.runtime().down()
    assert lab.stored()
    assert lab.runtime().kept()
    lab.runtime().down(volumes=True)
    assert not lab.stored()
    assert lab.runtime().kept() == ()


def test_down_with_volumes_deletes_the_objects_of_a_lab_that_is_up(lab: Harness) -> None:
    assert lab.get("contract/later") is None, "what was deleted is back after `up`"
    lab.put("contract/volumes", b"written before down --volumes")
    leftovers = lab.leftovers()
    lab.runtime().down(volumes=True)
    assert leftovers() == []
    assert not lab.stored()
    assert lab.runtime().down(volumes=True) == ()
    assert not lab.runtime().status().up
