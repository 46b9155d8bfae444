"""A lab that is not up, then one that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from lab.errors import LabDownError, LabError, NotFoundError, RefusedError
from lab.runtime.base import Runtime
from lab.services import HEAD, JUPYTER, STORE
from lab.topology import Progress, State
from tests.contract.harness import Harness

NEVER_UP = "never-up"

ON_A_LAB: dict[str, Callable[[Runtime], object]] = {
    "spec": lambda runtime: runtime.spec(),
    "endpoints": lambda runtime: runtime.endpoints(),
}
ON_A_SERVICE: dict[str, Callable[[Runtime, str], object]] = {
    "logs": lambda runtime, service: list(runtime.logs(service)),
    "kill": lambda runtime, service: runtime.kill(service),
    "stop": lambda runtime, service: runtime.stop(service),
    "pause": lambda runtime, service: runtime.pause(service),
    "resume": lambda runtime, service: runtime.resume(service),
    "execute": lambda runtime, service: runtime.execute(service, ["true"]),
    "start": lambda runtime, service: runtime.start(service),
}


def test_a_lab_that_was_never_up_has_nothing_that_runs(harness: Harness) -> None:
    status = harness.runtime(NEVER_UP).status()
    assert (status.name, status.runtime, status.up, status.healthy) == (NEVER_UP, harness.kind, False, False)
    assert all(service.state is State.ABSENT for service in status.services)


def test_down_on_a_lab_that_is_not_up_stops_nothing(harness: Harness) -> None:
    assert harness.runtime(NEVER_UP).down() == ()
    assert harness.runtime(NEVER_UP).down(volumes=True) == ()


@pytest.mark.parametrize("method", ON_A_LAB)
def test_a_lab_that_is_not_up_has_no(harness: Harness, method: str) -> None:
    with pytest.raises(LabDownError):
        ON_A_LAB[method](harness.runtime(NEVER_UP))


@pytest.mark.parametrize("method", ON_A_SERVICE)
def test_on_a_lab_that_is_not_up_nothing_can_be_done_to_a_service(harness: Harness, method: str) -> None:
    with pytest.raises(LabDownError):
        ON_A_SERVICE[method](harness.runtime(NEVER_UP), "ray-worker-0")


def test_up_starts_every_service_and_reports_each_until_it_is_healthy(harness: Harness) -> None:
    progress: list[Progress] = []
    status = harness.runtime().up(harness.spec, progress.append)
    assert status.up
    assert status.healthy, status
    names = {service.service for service in status.services}
    assert names >= {HEAD, STORE, JUPYTER, "ray-worker-0", "ray-worker-1"}
    assert not [name for name in names if name.startswith("ray-worker-") and name[-1] not in "01"]
    for name in names:
        states = [step.state for step in progress if step.service == name]
        assert states, f"no progress was reported for {name}"
        assert states[-1] is State.HEALTHY, f"{name}: {states}"
    assert all(step.seconds >= 0 for step in progress)


def test_another_instance_sees_the_same_lab(lab: Harness) -> None:
    first, second = lab.runtime(), lab.runtime()
    assert first is not second
    assert second.status().healthy
    assert second.spec() == lab.spec
    assert second.endpoints() == first.endpoints()
    assert second.status().gpu == lab.spec.gpu


def test_two_instances_of_other_names_do_not_see_it(lab: Harness) -> None:
    assert not lab.runtime(NEVER_UP).status().up


def test_every_endpoint_is_on_loopback(lab: Harness) -> None:
    endpoints = lab.runtime().endpoints()
    urls = [endpoints.dashboard, endpoints.s3, endpoints.jupyter]
    urls += [url for url in (endpoints.prometheus, endpoints.grafana) if url]
    if not endpoints.gcs.startswith(f"{HEAD}:"):  # which only the lab's own network knows
        urls.append(f"tcp://{endpoints.gcs}")
    assert [url for url in urls if urlsplit(url).hostname != "127.0.0.1" or not urlsplit(url).port] == []


def test_dashboard_and_store_serve_only_whoever_has_the_secret(lab: Harness) -> None:
    lab.check_access()


def test_every_node_is_alive_under_its_services_name_and_offers_what_the_spec_says(lab: Harness) -> None:
    alive = {node.service: node for node in lab.nodes() if node.alive}
    assert set(alive) == {HEAD, *lab.spec.worker_services}
    assert alive[HEAD].head
    for service in lab.spec.worker_services:
        assert alive[service].resources["CPU"] == lab.spec.cpus_per_worker
        assert alive[service].resources["GPU"] == 1


def test_up_again_changes_nothing(lab: Harness) -> None:
    before = (lab.identities(), lab.runtime().endpoints(), [n.node_id for n in lab.nodes()])
    assert lab.runtime().up(lab.spec).healthy
    assert (lab.identities(), lab.runtime().endpoints(), [n.node_id for n in lab.nodes()]) == before


def test_up_with_another_spec_is_refused_and_changes_nothing(lab: Harness) -> None:
    before = lab.identities()
    with pytest.raises(RefusedError):
        lab.runtime().up(replace(lab.spec, workers=1))
    assert lab.identities() == before
    assert lab.runtime().spec() == lab.spec
    assert lab.runtime().status().healthy


def test_the_same_settings_for_another_reason_are_the_same_spec(lab: Harness) -> None:
    gpu = replace(lab.spec.gpu, reason="auto: chosen for another reason")
    assert lab.runtime().up(replace(lab.spec, gpu=gpu)).healthy


def test_logs_are_the_services_own_lines(lab: Harness) -> None:
    lines = list(lab.runtime().logs(HEAD))
    assert lines
    assert not [line for line in lines if line.endswith("\n")]

    def last() -> bool:  # unless it says something between the two
        return list(lab.runtime().logs(HEAD, tail=1)) == [list(lab.runtime().logs(HEAD))[-1]]

    lab.eventually(last, "the last line is the last of all")


@pytest.mark.parametrize("method", ON_A_SERVICE)
def test_a_service_that_the_lab_does_not_have_is_not_found(lab: Harness, method: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        ON_A_SERVICE[method](lab.runtime(), "ray-worker-7")
    assert "ray-worker-7" in caught.value.message
    assert "ray-worker-1" in caught.value.hint


def test_starting_a_healthy_service_does_nothing(lab: Harness) -> None:
    before = lab.identities()
    lab.runtime().start("ray-worker-0")
    assert lab.identities() == before


def test_resuming_a_service_that_is_not_paused_does_nothing(lab: Harness) -> None:
    before = lab.identities()
    lab.runtime().resume("ray-worker-0")
    assert lab.identities() == before
    assert lab.runtime().status().healthy


def test_a_repair_that_fails_keeps_what_it_has_made_healthy(lab: Harness) -> None:
    lab.put("contract/repaired", b"kept")
    for service in (STORE, JUPYTER):
        lab.runtime().kill(service)
    rest = {name: who for name, who in lab.identities().items() if name not in (STORE, JUPYTER)}

    with lab.spoiled(JUPYTER), pytest.raises(LabError, match=JUPYTER):
        lab.runtime().up(lab.spec)

    assert lab.state(STORE) is State.HEALTHY, "a job may be writing to it by now"
    assert lab.get("contract/repaired") == b"kept"
    assert lab.state(JUPYTER) in (State.EXITED, State.ABSENT)
    assert {name: who for name, who in lab.identities().items() if name in rest} == rest
    assert lab.runtime().up(lab.spec).healthy
