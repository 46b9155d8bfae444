from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.cluster.api import Node
from lab.errors import LabDownError
from lab.flows.doctor import run_checks
from lab.flows.doctor import running as checks
from lab.flows.doctor.model import Facts, ListeningPort, ProbedAddress, ProbedPage, RunningLab, Tools
from lab.flows.doctor.running import running_checks
from lab.host.listening import Listening
from lab.runtime.base import LabView
from lab.services import HEAD
from lab.topology import LabSpec, LabStatus
from lab.topology.address import Address
from tests.fakes import FakeRuntime
from tests.unit.flows.doctor.test_machine import GOOD, NONE


def node(service: str, alive: bool = True) -> Node:
    return Node(service, service, alive, service == HEAD, {}, 1.0, None, "")


@pytest.fixture
def runtime() -> FakeRuntime:
    made = FakeRuntime("raylab")
    made.up(LabSpec())
    return made


@pytest.fixture
def seen(runtime: FakeRuntime) -> RunningLab:
    return RunningLab(
        status=runtime.status(),
        dashboard=ProbedPage(200, date=1000.0, asked_at=1000.4),
        anonymous=ProbedPage(401),
        nodes=runtime.nodes(),
        store_server="moto 5.2.5",
        listeners=(
            ListeningPort(HEAD, Listening("127.0.0.1", 8265)),
            ListeningPort(HEAD, Listening("::1", 6379)),
        ),
    )


def test_a_whole_lab_passes_everything(seen: RunningLab) -> None:
    answers = running_checks(seen)
    assert [(check.name, check.detail) for check in answers if check.outcome != "passed"] == []
    assert len({check.name for check in answers}) == len(answers) == 7


def test_a_service_that_is_not_healthy_is_named_with_its_reason(
    runtime: FakeRuntime, seen: RunningLab
) -> None:
    runtime.kill("ray-worker-1")
    answer = checks.services(replace(seen, status=runtime.status()))
    assert answer.outcome == "failed"
    assert answer.detail == "ray-worker-1 is exited (its process was killed)"
    assert "labctl logs ray-worker-1" in answer.hint


@pytest.mark.parametrize(
    ("dashboard", "anonymous", "outcome", "said"),
    [
        (ProbedPage(200), ProbedPage(401), "passed", "refuses"),
        (ProbedPage(200), ProbedPage(403), "passed", "refuses"),
        (ProbedPage(200), ProbedPage(200), "failed", "without the token: HTTP 200"),
        (ProbedPage(401), ProbedPage(401), "failed", "with the token: HTTP 401"),
        (
            ProbedPage(error="does not answer"),
            ProbedPage(error="does not answer"),
            "failed",
            "does not answer",
        ),
    ],
)
def test_the_dashboard_must_serve_with_the_token_and_only_then(
    seen: RunningLab, dashboard: ProbedPage, anonymous: ProbedPage, outcome: str, said: str
) -> None:
    answer = checks.dashboard(replace(seen, dashboard=dashboard, anonymous=anonymous))
    assert (answer.outcome, said in answer.detail) == (outcome, True)


def test_a_service_whose_node_is_dead_is_missing_also_when_an_older_node_had_its_name(
    seen: RunningLab,
) -> None:
    listed = (node(HEAD), node("ray-worker-0", alive=False), node("ray-worker-1"))
    answer = checks.nodes(replace(seen, nodes=listed))
    assert answer.outcome == "failed"
    assert answer.detail == "not alive in Ray: ray-worker-0"
    again = checks.nodes(replace(seen, nodes=(*listed, node("ray-worker-0"))))
    assert again.outcome == "passed"


def test_a_node_list_that_cannot_be_had_fails_with_the_reason(seen: RunningLab) -> None:
    answer = checks.nodes(replace(seen, nodes=(), nodes_error="Ray's dashboard does not answer"))
    assert (answer.outcome, answer.detail) == ("failed", "Ray's dashboard does not answer")


def test_patches_that_the_head_does_not_tell_of_are_skipped_with_the_reason(seen: RunningLab) -> None:
    (answer,) = (
        check
        for check in running_checks(replace(seen, unfit_error="ray-head is paused"))
        if check.name == "lab's patches"
    )
    assert (answer.outcome, answer.detail) == ("skipped", "ray-head is paused")


def test_the_store_fails_with_what_went_wrong(seen: RunningLab) -> None:
    assert "(moto 5.2.5, standing in for MinIO)" in checks.store(seen).detail
    assert checks.store(replace(seen, store_server="MinIO")).detail.endswith("deleted (MinIO)")
    assert checks.store(replace(seen, store_error=None)).outcome == "skipped", (
        "through the gateway of a class"
    )
    answer = checks.store(replace(seen, store_error="the disk is full"))
    assert (answer.outcome, answer.detail) == ("failed", "the disk is full")


@pytest.mark.parametrize(
    ("address", "outcome"),
    [
        ("127.0.0.1", "passed"),
        ("127.0.1.1", "passed"),
        ("::1", "passed"),
        ("::ffff:127.0.0.1", "passed"),
        ("0.0.0.0%lo", "passed"),
        ("::%lo", "passed"),
        ("0.0.0.0%eth0", "failed"),
        ("0.0.0.0", "failed"),
        ("::", "failed"),
        ("192.168.1.20", "failed"),
        ("fe80::1%eth0", "failed"),
        ("::ffff:10.0.0.1", "failed"),
    ],
)
def test_a_port_that_is_not_on_loopback_is_named(seen: RunningLab, address: str, outcome: str) -> None:
    answer = checks.loopback(replace(seen, listeners=(ListeningPort("minio", Listening(address, 9000)),)))
    assert answer.outcome == outcome
    if outcome == "failed":
        assert answer.detail == f"minio listens on {address} port 9000"


def test_ports_that_this_user_may_not_see_are_skipped(seen: RunningLab) -> None:
    assert checks.loopback(replace(seen, listeners=None)).outcome == "skipped"


@pytest.mark.parametrize(
    ("date", "outcome"),
    [(1004.0, "passed"), (990.0, "warning"), (1020.0, "warning"), (3000.0, "failed"), (None, "skipped")],
)
def test_the_labs_clock_is_compared_with_this_machines(
    seen: RunningLab, date: float | None, outcome: str
) -> None:
    assert (
        checks.lab_clock(replace(seen, dashboard=ProbedPage(200, date=date, asked_at=1000.0))).outcome
        == outcome
    )


# All together


def facts() -> Facts:
    return GOOD


def tools() -> Tools:
    return NONE


def test_the_lab_is_checked_when_it_is_up_and_memory_is_judged_for_its_workers(seen: RunningLab) -> None:
    runtime = FakeRuntime("raylab")
    runtime.up(LabSpec(workers=4))

    def observe(opened: LabView, status: LabStatus) -> RunningLab:
        assert opened is runtime
        return replace(seen, status=status, nodes=runtime.nodes())

    answers = run_checks(
        "raylab", "local", facts=facts, tools=tools, opener=lambda *_: runtime, observe=observe
    )
    by_name = {check.name: check for check in answers}
    assert {check.outcome for check in answers} == {"passed", "skipped"}
    assert by_name["services"].detail == "8 services are healthy"
    assert "4 workers" in by_name["memory"].detail
    assert "besides the running lab" in by_name["shared memory"].detail


def unasked(opened: LabView, status: LabStatus) -> RunningLab:
    raise AssertionError("a lab that is not up was looked at")


def test_a_lab_that_is_not_up_is_skipped_and_the_machine_is_checked() -> None:
    runtime = FakeRuntime("raylab")
    answers = run_checks(
        "raylab", "local", facts=facts, tools=tools, opener=lambda *_: runtime, observe=unasked
    )
    assert answers[-1].name == "lab"
    assert answers[-1].outcome == "skipped"
    assert "not up" in answers[-1].detail
    assert "2 workers" in next(check.detail for check in answers if check.name == "memory")


def test_a_lab_that_breaks_while_it_is_looked_at_is_a_failed_check_not_a_crash(runtime: FakeRuntime) -> None:
    def observe(opened: LabView, status: LabStatus) -> RunningLab:
        raise LabDownError("lab raylab is not up", "start it")

    answers = run_checks(
        "raylab", "local", facts=facts, tools=tools, opener=lambda *_: runtime, observe=observe
    )
    assert (answers[-1].name, answers[-1].outcome, answers[-1].hint) == ("lab", "failed", "start it")
    assert answers[0].name == "python"


ADDRESS = ProbedAddress(
    Address("class.example.org", 8443, "192.0.2.7", "/a/cert.pem", "/a/key.pem"),
    ("192.0.2.7",),
    ends=1000.0 + 90 * 86_400,
    asked_at=1000.0,
)


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        ({}, "passed", "served at 192.0.2.7 port 8443; its certificate ends in 90 days"),
        ({"ends": 1000.0 + 3 * 86_400}, "warning", "its certificate ends in 3 days"),
        ({"address": Address("class.example.org", 8443, "192.0.2.7")}, "passed", "is renewed by itself"),
        ({"known": ()}, "failed", "the host of --address cannot be resolved here"),
        (
            {"error": "certificate has expired"},
            "failed",
            "not served at 192.0.2.7 port 8443: certif",
        ),
    ],
)
def test_the_address_of_a_class(seen: RunningLab, change: dict[str, Any], outcome: str, words: str) -> None:
    lab = replace(seen, address=replace(ADDRESS, **change))
    answer = next(check for check in running_checks(lab) if check.name == "address")
    assert (answer.outcome, words in answer.detail) == (outcome, True), answer
    assert "class.example.org" not in answer.detail + answer.hint


def test_the_port_of_a_class_is_meant_and_no_other(seen: RunningLab) -> None:
    meant = ListeningPort("proxy", Listening("192.0.2.7", 8443))
    lab = replace(seen, address=ADDRESS, listeners=(*(seen.listeners or ()), meant))
    assert checks.loopback(lab).detail == "3 open ports, all on loopback but the address of the class"
    for service, address, port in (("proxy", "0.0.0.0", 8443), ("gateway", "192.0.2.7", 8443)):
        other = ListeningPort(service, Listening(address, port))
        assert checks.loopback(replace(lab, listeners=(other,))).outcome == "failed"
    assert checks.loopback(replace(lab, address=None)).outcome == "failed"
