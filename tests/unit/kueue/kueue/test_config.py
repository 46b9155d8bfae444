"""Kueue's cases of its Configuration: which one is refused, and for which field alone."""

from __future__ import annotations

import json

import pytest

from kueue.model import AdmissionFairSharing, Config, WaitForPodsReady
from kueue.reading import read
from kueue.writing import as_yaml, objects
from tests.unit.kueue.kueue import tables
from tests.unit.kueue.kueue.test_refused import near

CASES = tables.table("config")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_configuration_is_taken_or_refused_as_by_kueue(case: tables.Data) -> None:
    head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    reading = read([("one.yaml", json.dumps({**head, **case["given"]}, indent=1))])
    if "refused" in case:
        assert reading.errors
        assert all(near(error.path, case["refused"]) for error in reading.errors), reading.errors
    else:
        assert reading.errors == ()
        assert reading.setup.config == settings(case)
        assert read([("again.yaml", as_yaml(objects(reading.setup)))]).setup.config == settings(case)


def settings(case: tables.Data) -> Config:
    """What the case sets."""
    waits, fair = case.get("pods_ready"), case.get("admission_fair_sharing")
    return Config(
        tuple(case["strategies"]) if "strategies" in case else None,
        WaitForPodsReady(**waits) if waits else None,
        AdmissionFairSharing(**fair) if fair else None,
        case.get("ignore_undeclared", False),
        case.get("keep_finished"),
    )
