"""One shared lab for most tests: booting one is what takes time."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import UP, Bench, Shell

HERE = Path(__file__).resolve().parent

OBJECTS_BYTES = 1024**3
"""Size of the small disk for the shared lab's objects, where this user may mount one. 256 MiB ran full."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark this folder's tests, and let those that need no shared lab run before one is booted."""
    places = [i for i, item in enumerate(items) if HERE in item.path.parents]
    own = sorted((items[i] for i in places), key=shared_lab)
    for place, item in zip(places, own, strict=True):
        item.add_marker(pytest.mark.e2e)
        items[place] = item


def shared_lab(item: pytest.Item) -> int:
    """0 for a test without a shared lab, then those of the lab of processes, then of containers."""
    used = getattr(item, "fixturenames", ())
    return 2 if "containers" in used else 1 if "shared" in used else 0


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """RAYLAB_HOME of all labs of this session. Short: Ray puts sockets below paths."""
    folder = Path(tempfile.mkdtemp(prefix="raylab-e2e-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def make_bench(home: Path) -> Iterator[Callable[[], Bench]]:
    """Makes labs that are not up yet; each is removed after the module, whatever state it is in."""
    made: list[Bench] = []

    def make() -> Bench:
        made.append(Bench(home))
        return made[-1]

    yield make
    for bench in made:
        bench.remove()


@pytest.fixture(scope="session")
def shared(home: Path) -> Iterator[Bench]:
    """The shared lab: two workers with a simulated GPU each, its objects on a small disk if possible."""
    bench = Bench(home)
    objects = bench.folder / "objects"
    objects.mkdir(parents=True)
    mount = ("mount", "-t", "tmpfs", "-o", f"size={OBJECTS_BYTES}", "raylab-e2e", str(objects))
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    try:
        bench.labctl(*UP)
        yield bench
    finally:
        bench.lab.down()
        if mounted:
            subprocess.run(["umount", "--lazy", str(objects)], check=False)
        bench.remove()


@pytest.fixture
def shell(bench: Bench) -> Shell:
    """The lab of tests that ask the same of any lab. In compose/ it is one of containers."""
    return bench


@pytest.fixture
def bench(shared: Bench) -> Iterator[Bench]:
    """The shared lab, whole and without a job; made so again afterwards."""
    yield shared
    if not shared.healthy():
        shared.labctl(*UP)
    shared.stop_jobs()
