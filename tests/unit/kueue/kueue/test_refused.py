"""Kueue's cases of objects that are refused, and of ones that are not."""

from __future__ import annotations

import json

import pytest

from kueue.reading import read
from tests.unit.kueue.kueue import tables

CASES = tables.table("refused")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_kueue_refuses_is_refused_and_nothing_else(case: tables.Data) -> None:
    wanted = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": case["kind"],
        "metadata": {"name": "one"},
        "spec": case["spec"],
    }
    reading = read([("one.yaml", json.dumps(wanted, indent=1))])
    paths = [error.path for error in reading.errors]
    if case["refused"]:
        assert any(near(path, case["refused"]) for path in paths), reading.errors
    else:
        assert reading.errors == ()


def near(path: str, wanted: str) -> bool:
    """Tell if both are the same place, or one is a field of the other."""
    return path.startswith(wanted) or wanted.rpartition(".")[0] == path
