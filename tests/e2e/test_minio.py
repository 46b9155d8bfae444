"""Labs of plain processes whose object store is MinIO: every fault of the store, and the demo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.chaos import StoreChaosTests
from tests.e2e.harness import UP, Bench, Shell
from tests.e2e.receipts import assert_recovered
from tests.e2e.store import check_keys
from tests.go_programs import MINIO

pytestmark = pytest.mark.minio


class MinioBench(Bench):
    """A lab of plain processes with MinIO on PATH."""

    programs = (MINIO, *Bench.programs)


@pytest.fixture(scope="module")
def minio_lab(home: Path) -> Iterator[MinioBench]:
    """One lab for the module."""
    bench = MinioBench(home, "minio")
    try:
        bench.labctl(*UP)
        yield bench
    finally:
        bench.remove()


@pytest.mark.rare
def test_one_command_boots_breaks_and_proves_the_recovery_with_minio(
    home: Path,
) -> None:
    bench = MinioBench(home, "minio-demo")
    try:
        ended = bench.labctl("demo", "--gpu", "simulated", "--epochs", "8", "--json", timeout=480)
        assert bench.state().store == "minio"
        document, receipt = ended.documents
        assert_recovered(receipt)
        assert document["demo"]["comparison"]["weights"] == "equal", document
        check_keys(bench)
    finally:
        bench.remove()


class TestMinioChaos(StoreChaosTests):
    @pytest.fixture
    def shell(self, minio_lab: MinioBench) -> Shell:
        return minio_lab
