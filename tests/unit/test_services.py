"""The table of services, held to the Compose files and to what else is kept of a service."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lab.host import secrets
from lab.runtime.compose.project import SETUP
from lab.runtime.local.services import startable
from lab.services import (
    ALERTMANAGER,
    HEAD,
    METRICS,
    PORT_NAMES,
    PORTS,
    PROMETHEUS,
    REDIS,
    SERVICES,
    STORE,
    WORKER,
    Service,
    is_node,
    row,
    stage,
    worker,
)
from tests.conftest import ROOT


class Loader(yaml.SafeLoader):
    """Reads Compose's own tags as plain values."""


Loader.add_multi_constructor("!", lambda loader, _, node: loader.construct_sequence(node))


def compose(file: str) -> dict[str, Any]:
    text = (ROOT / "compose" / file).read_text(encoding="utf-8")
    services: dict[str, Any] = yaml.load(text, Loader)["services"]
    return services


FILES = {
    **compose("gcs-ft.yaml"),
    **compose("address.yaml"),
    **compose("hub.yaml"),
    **compose("class.yaml"),
    **compose("lab.yaml"),
}


PUBLISHED_BY = {PROMETHEUS: METRICS, ALERTMANAGER: METRICS}
"""Service -> the one that stands before it, and refuses foreign host names."""


def written(service: Service) -> dict[str, Any]:
    """The service as the Compose files have it."""
    definition: dict[str, Any] = FILES[worker(0) if service.name == WORKER else service.name]
    return definition


def test_the_compose_files_have_these_services_and_the_one_that_prepares_the_store() -> None:
    names = {name for name in FILES if not name.startswith(WORKER)} | {WORKER}
    assert names == {service.name for service in SERVICES} | {SETUP}


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_publishes_the_ports_of_its_row(service: Service) -> None:
    if service.addressed:
        (address,) = written(service)["ports"]
        assert address == "${LAB_ADDRESS_LISTEN:-127.0.0.1}:${LAB_ADDRESS_PORT:-8443}:8443"
        return
    publishing = [known for known in SERVICES if PUBLISHED_BY.get(known.name, known.name) == service.name]
    expected = [
        f"127.0.0.1:${{{port.variable}:-{port.usual}}}:{port.usual}"
        for service in publishing
        for port in service.ports
        if port.published
    ]
    assert written(service).get("ports", []) == expected


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_starts_after_those_of_its_row(service: Service) -> None:
    needs = set(written(service).get("depends_on", ()))
    if service.name == HEAD:
        needs |= set(compose("gcs-ft.yaml")[HEAD]["depends_on"])
    assert {STORE if name == SETUP else name for name in needs} == set(service.after)
    names = [service.name for service in SERVICES]
    assert all(names.index(name) < names.index(service.name) for name in service.after)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_can_say_whether_it_serves(service: Service) -> None:
    """Over HTTP on its published port, by Ray's node list, or else by a health check in its container."""
    asked = service.is_node or (service.health and any(port.published for port in service.ports))
    assert asked or "healthcheck" in written(service)


def test_a_secret_is_a_file_that_the_container_gets() -> None:
    known = {value for name, value in vars(secrets).items() if name.endswith("_FILE")}
    for service in SERVICES:
        if service.secret:
            assert service.secret in known, service.name
            others = {"s3.json"}  # the store's own container has the root key; this one is for its users
            assert service.secret in {*written(service)["secrets"], *others}, service.name


def test_a_service_that_every_lab_has_can_be_a_process() -> None:
    assert [service.name for service in SERVICES if not (service.optional or startable(service))] == []


def test_rows_are_found_by_the_names_of_services() -> None:
    assert row(worker(7)) is row(WORKER)
    assert row("fork-server").ports == ()
    assert [stage(name) for name in (STORE, REDIS, HEAD, METRICS, worker(3))] == [0, 0, 1, 1, 2]
    assert is_node(HEAD)
    assert is_node(worker(12))
    assert not is_node("ray-worker-x")
    assert not is_node(STORE)


def test_every_port_has_one_name_and_can_be_chosen_where_a_person_uses_it() -> None:
    assert len(PORTS) == sum(len(service.ports) for service in SERVICES)
    assert set(PORT_NAMES) == {
        "dashboard",
        "gcs",
        "client",
        "s3",
        "queue",
        "gateway",
        "hub",
        "jupyter",
        "prometheus",
        "alertmanager",
        "grafana",
    }
