"""Who comes through which entrance of a class, on plain processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from lab.api.hub import homes
from lab.people.registry import FOLDER, Registry
from tests.e2e.classes import Course
from tests.e2e.entrances import EntranceTests
from tests.e2e.harness import ROOT, Bench
from tests.entrances import ENTRANCES

pytest.importorskip("jupyterhub", reason="needs the group `hub`: JupyterHub is not installed")


@pytest.mark.rare
class TestEntrances(EntranceTests):
    """On plain processes."""

    expected = tuple(way.terminal for way in ENTRANCES)

    @pytest.fixture
    def course(self, make_bench: Callable[[], Bench]) -> Course:
        return Course(make_bench(), "ann", "ben")

    def names(self, course: Course) -> Mapping[str, str]:
        folder = course.bench.folder
        return {
            "homes": str(homes(folder)),
            "people": str(Registry(folder / FOLDER).path),
            "pid": str(course.server("ben")),
        }

    def ports(self, course: Course) -> Mapping[str, str]:
        services = ("hub", "gateway", "queue", "s3", "dashboard", "prometheus", "grafana")
        opened = psutil.Process(course.server("ben")).net_connections()
        (port,) = {c.laddr.port for c in opened if c.status == psutil.CONN_LISTEN}
        known = {name: str(getattr(course.endpoints, name)) for name in services}
        return {**known, "server": f"http://127.0.0.1:{port}"}

    def ray_token_file(self, course: Course) -> str:
        return course.endpoints.ray_token_file

    def command(self, course: Course, file: Path) -> str:
        return f"cd {ROOT} && python -m tests.e2e.entering {file}"
