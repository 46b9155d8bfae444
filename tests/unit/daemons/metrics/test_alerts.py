"""The alerts of compose/prometheus: each is tested, documented, and asks for metrics that are served."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.unit.daemons.metrics.test_dashboard import served

ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for path in (ROOT / "compose" / "prometheus").glob("*.rules.yml")
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
}


def test_every_alert_is_played_once_where_it_fires() -> None:
    document = yaml.safe_load((ROOT / "tests" / "e2e" / "alerts.test.yml").read_text())
    fired = {
        played["alertname"]
        for test in document["tests"]
        for played in test["alert_rule_test"]
        if played.get("exp_alerts")
    }
    assert fired == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_severity_a_summary_and_a_row_in_the_documents(name: str) -> None:
    assert ALERTS[name]["labels"]["severity"] in ("warning", "critical")
    assert ALERTS[name]["annotations"]["summary"]
    documents = "".join((ROOT / "docs" / page).read_text() for page in ("health.md", "metrics.md"))
    assert re.search(rf"^\| .*`{name}`", documents, re.MULTILINE)


def test_alerts_of_the_lab_ask_only_for_metrics_that_are_served() -> None:
    text = (ROOT / "compose" / "prometheus" / "lab.rules.yml").read_text()
    asked = set(re.findall(r"raylab_\w+", text))
    assert asked
    assert asked <= served()
