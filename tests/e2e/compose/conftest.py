"""One lab of containers for most tests. Where no engine answers these tests are skipped, in CI they fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.docker import choose_images, needs_docker
from tests.e2e.compose.bench import UP_SECONDS, ContainerBench
from tests.e2e.harness import UP, Shell

HERE = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.containers)


@pytest.fixture(scope="session")
def engine() -> None:
    """An engine with Compose; without one the test is skipped."""
    needs_docker()
    choose_images()


@pytest.fixture(scope="module")
def make_container_bench(engine: None, home: Path) -> Iterator[Callable[[], ContainerBench]]:
    """Makes labs that are not up yet; each is removed after the module, whatever state it is in."""
    made: list[ContainerBench] = []

    def make() -> ContainerBench:
        made.append(ContainerBench(home, "box"))
        return made[-1]

    yield make
    for bench in made:
        bench.remove()


@pytest.fixture(scope="session")
def containers(engine: None, home: Path) -> Iterator[ContainerBench]:
    """The shared lab of containers: two workers with a simulated GPU each."""
    bench = ContainerBench(home, "box")
    with bench.up(*UP):
        yield bench


@pytest.fixture
def shell(box: ContainerBench) -> Shell:
    return box


@pytest.fixture
def box(containers: ContainerBench) -> Iterator[ContainerBench]:
    """The shared lab of containers, whole and without a job; made so again afterwards."""
    yield containers
    if not containers.healthy():
        containers.labctl(*UP, timeout=UP_SECONDS)
    containers.stop_jobs()
