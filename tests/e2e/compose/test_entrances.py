"""Who comes through which entrance of a class, in containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lab.api.hub import HOMES_INSIDE
from lab.services import HUB
from tests.e2e.classes import Course
from tests.e2e.compose.bench import ContainerBench, docker
from tests.e2e.entrances import EntranceTests
from tests.e2e.harness import ROOT
from tests.entrances import ENTRANCES

INSIDE = "/opt/entrances"
"""Folder with the tests in the hub's container."""

PORTS = {
    "hub": "http://127.0.0.1:8000",
    "gateway": "http://gateway:8280",
    "queue": "http://queue:8266",
    "s3": "http://minio:9000",
    "dashboard": "http://ray-head:8265",
    "prometheus": "http://prometheus:9090",
}
"""In the network of the lab; where there is an image of Grafana, it is beside them."""


@pytest.mark.rare
class TestEntrances(EntranceTests):
    """In containers."""

    expected = tuple(way.contained for way in ENTRANCES)

    @pytest.fixture
    def course(self, make_container_bench: Callable[[], ContainerBench]) -> Course:
        return Course(make_container_bench(), "ann", "ben")

    def names(self, course: Course) -> Mapping[str, str]:
        bench, (_, uid) = _bench(course), course.people["ben"].type("id -u")
        servers = bench.pids(HUB, "-m", "jupyterhub.singleuser")
        (pid,) = (pid for pid in servers if bench.owner(HUB, pid) == uid.strip())
        return {"homes": HOMES_INSIDE, "people": "/var/lib/raylab/people/people.json", "pid": pid}

    def ports(self, course: Course) -> Mapping[str, str]:
        _, url = course.people["ben"].type("echo $JUPYTERHUB_SERVICE_URL")
        return {**PORTS, "server": f"http://{urlsplit(url.strip()).netloc}"}

    def ray_token_file(self, course: Course) -> str:
        return "/run/secrets/ray.token"

    def command(self, course: Course, file: Path) -> str:
        bench = _bench(course)
        bench.exec(HUB, "mkdir", INSIDE)
        for path in (file, ROOT / "tests"):
            docker("cp", str(path), f"{bench.container(HUB)}:{INSIDE}")
        modules = f"{INSIDE}:/opt/raylab/src"
        return f"cd {INSIDE} && PYTHONPATH={modules} python -m tests.e2e.entering {INSIDE}/{file.name}"


def _bench(course: Course) -> ContainerBench:
    assert isinstance(course.bench, ContainerBench)
    return course.bench
