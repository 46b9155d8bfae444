"""Alerts as Alertmanager answers them, and silences as it is asked for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.cluster.alerts import Alerts, where
from lab.errors import LabDownError, NotFoundError, UnsupportedError
from lab.host.http import NoAnswerError, Reply

NOW = 1_764_000_000.0

RULES = {"data": {"groups": [{"rules": [{"name": "NodeLost"}, {"name": "QueueStuck"}]}]}}


def fired(name: str, severity: str, state: str = "active", **labels: str) -> dict[str, Any]:
    return {
        "labels": {"alertname": name, "severity": severity, **labels},
        "annotations": {"summary": f"{name} of a test"},
        "startsAt": "2025-11-24T16:00:00.500Z",
        "status": {"state": state},
    }


class Alertmanager:
    """Answers as Alertmanager and Prometheus do."""

    def __init__(self, *alerts: dict[str, Any]) -> None:
        self.alerts, self.silences = alerts, list[dict[str, Any]]()
        self.status = 200

    def __call__(
        self, method: str, url: str, *, headers: dict[str, str], body: bytes | None, timeout: float
    ) -> Reply:
        if url == "http://p/api/v1/rules?type=alert":
            return Reply(200, {}, json.dumps(RULES).encode())
        if method == "POST":
            assert (url, headers) == ("http://a/api/v2/silences", {"Content-Type": "application/json"})
            self.silences.append(json.loads(body or b""))
            return Reply(200, {}, b'{"silenceID": "5-6"}')
        assert url == "http://a/api/v2/alerts"
        return Reply(self.status, {}, json.dumps(self.alerts).encode())

    @property
    def asked(self) -> Alerts:
        return Alerts("http://a", "http://p", request=self, now=lambda: NOW)


def test_the_worst_alerts_come_first_with_where_and_since_when() -> None:
    alertmanager = Alertmanager(
        fired("QueueStuck", "warning", "suppressed", cluster_queue="blue"),
        fired("NodeLost", "critical", service="ray-worker-0", job="raylab"),
    )
    lost, stuck = alertmanager.asked.firing()
    assert (lost.name, lost.severity, where(lost), lost.silenced) == (
        "NodeLost",
        "critical",
        "ray-worker-0",
        False,
    )
    assert lost.since == 1_764_000_000.5
    assert lost.summary == "NodeLost of a test"
    assert (stuck.name, where(stuck), stuck.silenced) == ("QueueStuck", "blue", True)


def test_a_silence_is_for_one_alert_and_as_long_as_asked() -> None:
    alertmanager = Alertmanager()
    made = alertmanager.asked.silence("NodeLost", 90)
    assert (made.id, made.alert, made.until) == ("5-6", "NodeLost", NOW + 90)
    (order,) = alertmanager.silences
    assert order["matchers"] == [
        {"name": "alertname", "value": "NodeLost", "isRegex": False, "isEqual": True}
    ]
    assert (order["startsAt"], order["endsAt"]) == ("2025-11-24T16:00:00+00:00", "2025-11-24T16:01:30+00:00")


def test_a_name_that_no_rule_has_is_refused_and_nothing_silenced() -> None:
    alertmanager = Alertmanager()
    with pytest.raises(NotFoundError, match="no alert NodLost") as caught:
        alertmanager.asked.silence("NodLost", 90)
    assert "NodeLost, QueueStuck" in caught.value.hint
    assert alertmanager.silences == []


def test_a_lab_without_alertmanager_says_what_it_needs() -> None:
    with pytest.raises(UnsupportedError, match="no Alertmanager") as caught:
        Alerts("", "http://p")
    assert "on PATH" in caught.value.hint


def test_one_that_does_not_answer_or_refuses_is_told() -> None:
    def silent(*_: object, **__: object) -> Reply:
        raise NoAnswerError("nothing listens there")

    with pytest.raises(LabDownError, match="nothing listens"):
        Alerts("http://a", "http://p", request=silent).firing()
    alertmanager = Alertmanager()
    alertmanager.status = 502
    with pytest.raises(LabDownError, match="answers 502"):
        alertmanager.asked.firing()


def test_an_alert_of_another_shape_is_named_by_its_field() -> None:
    alertmanager = Alertmanager({**fired("NodeLost", "critical"), "startsAt": 7})
    with pytest.raises(LabDownError) as caught:
        alertmanager.asked.firing()
    assert caught.value.message == "the answer of http://a: [0].startsAt should be a valid string, not 7"
