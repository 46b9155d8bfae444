"""The services of a lab as plain data, one row each: the one table of what belongs to a service or a port."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

HEAD = "ray-head"
STORE = "minio"
PROMETHEUS = "prometheus"
ALERTMANAGER = "alertmanager"
GRAFANA = "grafana"
JUPYTER = "jupyter"
METRICS = "metrics"
QUEUE = "queue"
GATEWAY = "gateway"
PROXY = "proxy"
"""The one service that other machines reach: in a class with an `address`."""
HUB = "hub"
REDIS = "redis"
"""Holds the state of Ray's head in a lab with `gcs_ft`."""

WORKER = "ray-worker"
"""Name of the row that all workers share; the services are called `ray-worker-0`, `ray-worker-1`, ..."""


@dataclass(frozen=True)
class Port:
    """A port that a service listens on."""

    name: str
    """Its name in `--port NAME=NUMBER`, in state files and in variables of the Compose files."""
    usual: int
    """The number that people expect: used where it is free, and inside containers."""
    http: bool = True
    settable: bool = True
    """Can be chosen with `--port`."""
    scraped: bool = False
    """Only Prometheus asks it; a lab of processes without Prometheus does not choose it."""

    @property
    def published(self) -> bool:
        """True when containers publish it on the host's loopback interface, for browsers and S3 clients."""
        return self.http and self.settable

    @property
    def variable(self) -> str:
        """The variable of the Compose files that has the number."""
        return f"LAB_{self.name.upper()}_PORT"


@dataclass(frozen=True)
class Service:
    """One part of a lab."""

    name: str
    what: str
    ports: tuple[Port, ...] = ()
    """The first is the one that its URL leads to."""
    health: str = ""
    """Path of a GET that answers 200 once it serves; a node is looked up in Ray instead."""
    stand_in_health: str = ""
    """The same path of the program that may stand in for it."""
    secret: str = ""
    """File in the lab's folder of secrets with what a person needs to use it; see lab.host.secrets."""
    after: tuple[str, ...] = ()
    """Services that it needs to start."""
    optional: bool = False
    """Left out of a lab where its image or program is missing."""
    gcs_ft: bool = False
    """Only a lab with `gcs_ft` has it."""
    classroom: bool = False
    """Only a lab with `classroom` has it."""
    addressed: bool = False
    """Only a lab with an `address` has it."""
    hub: bool = False
    """Only a lab with `hub` has it."""
    is_node: bool = False
    """A node of the Ray cluster."""

    @property
    def url_port(self) -> str:
        """Name of the port of its URL; empty when it speaks no HTTP."""
        return self.ports[0].name if self.ports and self.ports[0].http else ""


SERVICES: tuple[Service, ...] = (
    Service(
        STORE,
        "object store (S3) that holds the checkpoints",
        (Port("s3", 9000),),
        health="/minio/health/live",
        stand_in_health="/raylab/health",
        secret="s3.json",
    ),
    Service(
        REDIS,
        "the state of Ray's head, which outlives it",
        (Port("redis", 6380, http=False, settable=False),),
        gcs_ft=True,
    ),
    Service(
        PROMETHEUS, "metrics of the cluster", (Port("prometheus", 9090),), health="/-/ready", optional=True
    ),
    Service(
        ALERTMANAGER,
        "alerts: groups and silences them, and sends them on",
        (Port("alertmanager", 9093),),
        health="/-/ready",
        optional=True,
    ),
    Service(
        GRAFANA,
        "charts of the metrics",
        (Port("grafana", 3000),),
        health="/api/health",
        secret="grafana.password",
        optional=True,
    ),
    Service(
        HEAD,
        "Ray's head node: scheduler, Jobs API, dashboard",
        (
            Port("dashboard", 8265),
            Port("gcs", 6379, http=False),
            Port("client", 10001, http=False),
            Port("autoscaler-metrics", 44217, settable=False, scraped=True),
            Port("dashboard-metrics", 44227, settable=False, scraped=True),
        ),
        secret="ray.token",
        after=(STORE, REDIS),
        is_node=True,
    ),
    Service(
        METRICS,
        "the lab's own metrics, for Prometheus",
        (Port("metrics", 9101, settable=False),),
        health="/healthz",
        after=(STORE,),
        optional=True,
    ),
    Service(
        QUEUE,
        "queues and quotas: admits jobs, and submits them to Ray",
        (Port("queue", 8266),),
        health="/healthz",
        secret="ray.token",
        after=(STORE,),
    ),
    Service(
        GATEWAY,
        "jobs and queues for the people of a class, each with a token of her own",
        (Port("gateway", 8280),),
        health="/healthz",
        after=(STORE,),
        classroom=True,
    ),
    Service(
        PROXY,
        "the class's one address, with TLS: leads to the services behind it",
        (Port("proxy", 8281, settable=False),),
        health="/healthz",
        classroom=True,
        addressed=True,
    ),
    Service(
        HUB,
        "JupyterHub: a JupyterLab for each person of a class",
        (
            Port("hub", 8000),
            Port("hub-api", 8081, settable=False),
        ),
        health="/hub/health",
        after=(STORE,),
        classroom=True,
        hub=True,
    ),
    Service(
        JUPYTER,
        "notebooks",
        (Port("jupyter", 8888),),
        health="/api/status",
        secret="jupyter.token",
        after=(STORE,),
    ),
    Service(WORKER, "Ray node that trains", after=(HEAD,), is_node=True),
)
"""Every service that a lab can have, in the order of starting."""

PORTS: Mapping[str, Port] = {port.name: port for service in SERVICES for port in service.ports}

PORT_NAMES = tuple(port.name for port in PORTS.values() if port.settable)
"""Ports that `--port NAME=NUMBER` can set."""

NEEDED = frozenset(name for service in SERVICES for name in service.after)
"""Services without which others cannot start or work: not stopped while a node runs."""

_ROWS = {service.name: service for service in SERVICES}


def row(name: str) -> Service:
    """The row of the service with this name; one without content for a name that no service has."""
    return _ROWS.get(WORKER if is_worker(name) else name) or Service(name, "")


def stage(name: str) -> int:
    """The round in which a service starts: 0, or one after the last of the services that it needs."""
    return max((stage(needed) + 1 for needed in row(name).after), default=0)


def ports_of(services: Iterable[Service], *, scraped: bool = True) -> tuple[str, ...]:
    """Names of the ports of these services, those that only Prometheus asks on demand."""
    return tuple(port.name for service in services for port in service.ports if scraped or not port.scraped)


def worker(index: int) -> str:
    """Name of the worker service with this index, counted from 0."""
    return f"{WORKER}-{index}"


def is_worker(service: str) -> bool:
    """True when this is a worker service's name, of any index."""
    return re.fullmatch(rf"{WORKER}-\d+", service) is not None


def is_node(service: str) -> bool:
    """True when this service is a Ray node."""
    return row(service).is_node
