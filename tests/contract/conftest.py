"""One lab per runtime for the whole suite: booting one is what takes time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.harness import HARNESSES, ComposeHarness, Harness, MinioHarness
from tests.docker import choose_images, needs_docker
from tests.minio import minio_program


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "harness" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.contract)
            if runtime_of(item) is ComposeHarness:
                item.add_marker(pytest.mark.containers)
            if runtime_of(item) is MinioHarness:
                item.add_marker(pytest.mark.minio)


def runtime_of(item: pytest.Item) -> object:
    """The harness that a test of this suite is run with."""
    called = getattr(item, "callspec", None)
    return called.params.get("harness") if called else None


def title(harness: type[Harness]) -> str:
    """The name of a harness in those of tests."""
    return harness.__name__.removesuffix("Harness").lower()


@pytest.fixture(scope="session", params=HARNESSES, ids=title)
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """One runtime with a lab name of its own. Whatever the tests leave behind is removed."""
    if request.param is ComposeHarness:
        needs_docker()
        choose_images()
    made: Harness = request.param()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(autouse=True)
def minio_on_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the tests with MinIO alone: other labs of a session have their own store."""
    if runtime_of(request.node) is MinioHarness:
        folder, path = Path(minio_program()).parent, os.environ.get("PATH", os.defpath)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{path}")


@pytest.fixture
def lab(harness: Harness) -> Harness:
    """The runtime with its lab up and whole; booted by the first test that asks."""
    if not harness.runtime().status().healthy:
        harness.runtime().up(harness.spec)
    return harness
