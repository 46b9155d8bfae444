"""Labs of containers on MinIO itself, in the image that `.ci/images` makes of its program."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.services import STORE
from tests.conftest import ROOT
from tests.docker import MINIO_IMAGE
from tests.e2e.chaos import StoreChaosTests
from tests.e2e.compose.bench import UP_SECONDS, ContainerBench
from tests.e2e.harness import UP, Shell
from tests.e2e.receipts import assert_recovered
from tests.e2e.store import check_keys
from tests.go_programs import MINIO_RELEASE
from tests.minio import minio_program

pytestmark = [pytest.mark.minio, pytest.mark.rare]


class MinioContainers(ContainerBench):
    """A lab of containers whose store is the built image."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "LAB_S3_IMAGE": MINIO_IMAGE}


@pytest.fixture(scope="module")
def minio_containers(engine: None, home: Path) -> Iterator[MinioContainers]:
    """One lab for the module."""
    bench = MinioContainers(home, "minio")
    argv = (str(ROOT / ".ci" / "images"), "minio", minio_program())
    subprocess.run(argv, check=True, timeout=UP_SECONDS)
    with bench.up(*UP):
        yield bench


def test_one_command_breaks_and_proves_the_recovery_with_minio(minio_containers: MinioContainers) -> None:
    ended = minio_containers.labctl("demo", "--epochs", "8", "--json", timeout=480)
    document, receipt = ended.documents
    assert_recovered(receipt)
    assert document["demo"]["comparison"]["weights"] == "equal", document
    assert minio_containers.containers()[STORE]["Config"]["Image"] == MINIO_IMAGE
    assert MINIO_RELEASE in minio_containers.exec(STORE, "minio", "--version")
    check_keys(minio_containers)


class TestMinioChaos(StoreChaosTests):
    @pytest.fixture
    def shell(self, minio_containers: MinioContainers) -> Shell:
        return minio_containers


def test_what_was_stored_is_there_after_down_and_up(minio_containers: MinioContainers) -> None:
    minio_containers.lab.store.put("mine", b"data")
    minio_containers.labctl("down", timeout=UP_SECONDS)
    minio_containers.labctl(*UP, timeout=UP_SECONDS)
    assert minio_containers.lab.store.get("mine") == b"data"
