"""The object store of a lab of plain processes."""

from __future__ import annotations

from tests.e2e.harness import Bench
from tests.e2e.store import check_keys


def test_the_key_of_jobs_reaches_one_bucket(bench: Bench) -> None:
    check_keys(bench)
