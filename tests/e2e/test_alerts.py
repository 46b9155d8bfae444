"""Prometheus, Alertmanager and a webhook together: an alert is sent, silenced, and the silence is kept."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import urllib3

from lab.cluster.alerts import Alerts
from lab.host.secrets import load_or_make
from lab.runtime.local import prometheus
from lab.runtime.local.layout import Layout
from lab.runtime.local.services import ServicePlan
from lab.services import ALERTMANAGER as SERVICE
from lab.services import METRICS, worker
from lab.services import PROMETHEUS as PROMETHEUS_SERVICE
from lab.topology import LabSpec, State
from tests.built import ALERTMANAGER, PROMETHEUS
from tests.e2e.harness import PATIENCE, UP, Bench
from tests.e2e.servers import end, launch
from tests.programs import free_port, needed
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


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Webhook]:
    receiver = Webhook()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


class Watch:
    """The services of a lab that watch it, as a lab of processes starts them; the rest of it is not there."""

    def __init__(self, folder: Path, settings: Path) -> None:
        layout = Layout(folder, folder / "ray", folder / "tmp")
        names = ("s3", "dashboard", "gcs", "client", "queue", "metrics", "prometheus", "alertmanager")
        self.plan = ServicePlan(
            LabSpec(),
            {name: free_port() for name in names},
            layout,
            load_or_make(layout.secrets),
            "moto",
            prometheus=needed(PROMETHEUS),
            alertmanager=needed(ALERTMANAGER),
        )
        alerting = prometheus.alerting({prometheus.ALERTS_VARIABLE: str(settings)})
        files = {"prometheus.yml": prometheus.config(self.plan), **prometheus.rules()}
        for name, text in {**files, "alertmanager.yml": alerting}.items():
            (folder / name).write_text(text)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, service: str) -> None:
        log = self.plan.layout.folder / f"{service}.log"
        self._running[service] = launch(self.plan.command(service), log)

    def end(self, service: str) -> None:
        end(self._running.pop(service), signal.SIGTERM)

    def end_all(self) -> None:
        for service in tuple(self._running):
            self.end(service)

    def alerts(self) -> Alerts:
        return Alerts(self.plan.url("alertmanager"), self.plan.url("prometheus"))


@pytest.fixture
def watch(tmp_path: Path, webhook: Webhook) -> Iterator[Watch]:
    settings = tmp_path / "own.yml"
    settings.write_text(webhook.settings)
    watched = Watch(tmp_path, settings)
    for service in (METRICS, SERVICE, PROMETHEUS_SERVICE):
        watched.start(service)
    yield watched
    watched.end_all()


def test_an_alert_reaches_the_webhook_and_its_silence_outlives_alertmanager(
    watch: Watch, webhook: Webhook
) -> None:
    name = "HeadUnreachable"
    eventually(lambda: webhook.fired(name), PATIENCE, "the webhook is told that the head does not answer")
    (sent,) = webhook.fired(name)
    assert (sent["status"], sent["labels"]["severity"]) == ("firing", "critical")
    assert sent["annotations"]["summary"] == "Ray's head does not answer: no job starts"

    def silenced() -> dict[str, bool]:
        return {alert.name: alert.silenced for alert in watch.alerts().firing()}

    eventually(lambda: {name, "StoreUnreachable"} <= set(silenced()), PATIENCE, "both fire")
    assert silenced()[name] is False
    made = watch.alerts().silence(name, 3600)
    eventually(lambda: silenced()[name], PATIENCE, "it is silenced")
    assert not silenced()["StoreUnreachable"], "others are not"

    watch.end(SERVICE)
    watch.start(SERVICE)
    url = f"{watch.plan.url('alertmanager')}/api/v2/silences"
    with urllib3.PoolManager(retries=False, timeout=PATIENCE) as pool:

        def kept() -> list[tuple[str, str]]:
            reply = pool.request("GET", url, headers={"Origin": "http://foreign.example"})
            assert "Access-Control-Allow-Origin" not in reply.headers, "a page of the web can read it"
            return [(alert["id"], alert["status"]["state"]) for alert in json.loads(reply.data)]

        assert eventually(kept, PATIENCE, "Alertmanager answers again") == [(made.id, "active")]
        foreign = pool.request("GET", url, headers={"Host": "foreign.example"})
        simple = {"Content-Type": "text/plain"}  # what a page of another origin may send unasked
        posted = pool.request("POST", url, body=b"{}", headers=simple)
    assert foreign.status == 403
    assert posted.status == 415


class AlertBench(Bench):
    """A lab of plain processes whose Alertmanager has settings of its own."""

    settings: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, prometheus.ALERTS_VARIABLE: str(self.settings)}


@pytest.fixture
def lab(home: Path, tmp_path: Path, webhook: Webhook) -> Iterator[AlertBench]:
    needed(PROMETHEUS)
    needed(ALERTMANAGER)
    bench = AlertBench(home, "alerts")
    bench.settings = tmp_path / "own.yml"
    bench.settings.write_text(webhook.settings)
    try:
        bench.labctl(*UP, "--workers", "1")
        yield bench
    finally:
        bench.remove()


@pytest.mark.rare
def test_a_lost_node_is_told_listed_and_silenced(lab: AlertBench, webhook: Webhook) -> None:
    lost = worker(0)
    lab.runtime().stop(lost)
    eventually(lambda: webhook.fired("NodeLost"), PATIENCE, "the webhook is told of the lost node")
    (sent,) = webhook.fired("NodeLost")
    assert (sent["status"], sent["labels"]["service"]) == ("firing", lost)

    def shown() -> dict[str, Any]:
        alerts = lab.labctl("health", "alerts", "--json").document["alerts"]
        (alert,) = [alert for alert in alerts if alert["name"] == "NodeLost"]
        return dict(alert)

    assert (shown()["labels"]["service"], shown()["silenced"]) == (lost, False)
    lab.labctl("health", "silence", "NodLost", code=3)
    lab.labctl("health", "silence", "NodeLost", "--for", "1h")
    eventually(lambda: shown()["silenced"], PATIENCE, "it is silenced")
    lab.labctl("restart", SERVICE)
    assert lab.state_of(SERVICE) is State.HEALTHY
