"""labctl health alerts: what a person reads and types."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.api.health import Alert, Silence
from lab.cluster.alerts import Alerts
from tests.unit.cli.fakes import Labctl

LOST = Alert("NodeLost", "critical", 0.0, {"alertname": "NodeLost", "service": "worker"}, "it is dead", False)


@pytest.fixture
def firing(labctl: Labctl, monkeypatch: pytest.MonkeyPatch) -> list[Alert]:
    """What the lab's Alertmanager has."""
    alerts = [LOST, replace(LOST, name="QueueStuck", silenced=True)]
    labctl.stub("endpoints", replace(labctl.lab.endpoints(), alertmanager="http://a", prometheus="http://p"))
    monkeypatch.setattr(Alerts, "firing", lambda _: tuple(alerts))
    return alerts


def test_alerts_are_listed_with_what_is_wrong_and_where(labctl: Labctl, firing: list[Alert]) -> None:
    shown = labctl.ok("health", "alerts").splitlines()
    assert shown[0].split() == ["ALERT", "SEVERITY", "SINCE", "WHERE", "SUMMARY"]
    assert "worker" in shown[1]
    assert "critical, silenced" in shown[2]


def test_alerts_as_json(labctl: Labctl, firing: list[Alert]) -> None:
    assert labctl.json("health", "alerts")["alerts"][0] == {
        "name": "NodeLost",
        "severity": "critical",
        "since": 0.0,
        "labels": {"alertname": "NodeLost", "service": "worker"},
        "summary": "it is dead",
        "silenced": False,
    }


def test_nothing_wrong_is_said(labctl: Labctl, firing: list[Alert]) -> None:
    firing.clear()
    assert labctl.ok("health", "alerts") == "no alert fires\n"


def test_a_silence_is_an_hour_unless_said(
    labctl: Labctl, firing: list[Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, float]] = []

    def silence(_: Alerts, name: str, seconds: float) -> Silence:
        asked.append((name, seconds))
        return Silence("5-6", name, 7200.0)

    monkeypatch.setattr(Alerts, "silence", silence)
    assert labctl.ok("health", "silence", "NodeLost").startswith("NodeLost: silenced until 1970-01-01")
    assert labctl.json("health", "silence", "NodeLost", "--for", "2h")["silence"]["until"] == 7200.0
    assert asked == [("NodeLost", 3600.0), ("NodeLost", 7200.0)]


def test_a_lab_without_alertmanager_is_told(labctl: Labctl) -> None:
    ended = labctl("health", "alerts")
    assert ended.exit_code == 4
    assert "this lab has no Alertmanager" in ended.stderr
