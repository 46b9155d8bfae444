"""Alerts of a real lab: a node is lost, Alertmanager calls a webhook, and a person silences it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import urllib3

from lab.host.programs import ALERTMANAGER, PROMETHEUS
from lab.services import ALERTMANAGER as SERVICE
from lab.services import worker
from tests.e2e.harness import PATIENCE, UP, Bench
from tests.programs import needed
from tests.waiting import eventually


class Webhook:
    """A receiver of alerts on this machine."""

    def __init__(self) -> None:
        received: list[dict[str, Any]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self.received = received
        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def settings(self) -> str:
        """Alertmanager's settings that send everything here at once."""
        route = {"receiver": "test", "group_by": ["alertname"], "group_wait": "1s"}
        url = f"http://127.0.0.1:{self.server.server_port}/"
        return json.dumps(
            {"route": route, "receivers": [{"name": "test", "webhook_configs": [{"url": url}]}]}
        )

    def fired(self, name: str) -> list[dict[str, Any]]:
        """What was received of an alert."""
        alerts = (alert for message in list(self.received) for alert in message["alerts"])
        return [alert for alert in alerts if alert["labels"]["alertname"] == name]


class AlertBench(Bench):
    """A lab of plain processes whose Alertmanager has settings of its own."""

    settings: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "LAB_ALERTMANAGER_CONFIG": str(self.settings)}


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    receiver = Webhook()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def lab(home: Path, tmp_path: Path, webhook: Webhook) -> Iterator[AlertBench]:
    needed(PROMETHEUS)
    needed(ALERTMANAGER)
    bench = AlertBench(home, "alerts")
    bench.settings = tmp_path / "alertmanager.yml"
    bench.settings.write_text(webhook.settings)
    try:
        bench.labctl(*UP, "--workers", "1")
        yield bench
    finally:
        bench.remove()


def test_a_lost_node_reaches_the_webhook_and_can_be_silenced(lab: AlertBench, webhook: Webhook) -> None:
    lost = worker(0)
    lab.runtime().stop(lost)
    eventually(lambda: webhook.fired("NodeLost"), PATIENCE, "the webhook is told of the lost node")
    (told,) = webhook.fired("NodeLost")
    assert (told["status"], told["labels"]["service"], told["labels"]["severity"]) == (
        "firing",
        lost,
        "critical",
    )

    def shown() -> dict[str, Any]:
        (alert,) = [
            alert
            for alert in lab.labctl("alerts", "--json").document["alerts"]
            if alert["name"] == "NodeLost"
        ]
        return dict(alert)

    assert (shown()["labels"]["service"], shown()["silenced"]) == (lost, False)
    lab.labctl("alerts", "silence", "NodLost", code=3)
    made = lab.labctl("alerts", "silence", "NodeLost", "--for", "1h", "--json").document["silence"]
    assert shown()["silenced"]

    lab.labctl("restart", SERVICE)
    url = lab.lab.endpoints().alertmanager
    with urllib3.PoolManager(retries=False, timeout=10.0) as pool:
        kept = pool.request("GET", f"{url}/api/v2/silences", headers={"Origin": "http://foreign.example"})
        foreign = pool.request("GET", f"{url}/api/v2/silences", headers={"Host": "foreign.example"}).status
    assert [(each["id"], each["status"]["state"]) for each in json.loads(kept.data)] == [
        (made["id"], "active")
    ]
    assert "Access-Control-Allow-Origin" not in kept.headers, "a page of the web can read it"
    assert foreign == 403
