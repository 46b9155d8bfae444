"""Prometheus and Alertmanager of the local runtime: their settings, and where they listen."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.host.files import ROOT
from lab.runtime.ports import LOOPBACK
from lab.services import ALERTMANAGER, METRICS, PORTS, PROMETHEUS

if TYPE_CHECKING:
    from lab.runtime.local.services import ServicePlan

SETTINGS = ROOT / "compose" / "prometheus"
"""Those of the containers."""

ALERTS_VARIABLE = "LAB_ALERTMANAGER_CONFIG"
"""Names Alertmanager's settings, in place of those that send nothing on."""

GUARDED = (PROMETHEUS, ALERTMANAGER)
"""Services that answer any host name, so that `metrics` stands before them."""


def absent() -> dict[str, str]:
    """Services that cannot be started on this machine -> the program that is missing."""
    if not shutil.which("prometheus"):
        return dict.fromkeys((PROMETHEUS, METRICS, ALERTMANAGER), "prometheus")
    return {} if find_alertmanager() else {ALERTMANAGER: "alertmanager"}


def find_alertmanager() -> str:
    """The path of Alertmanager, which Debian calls otherwise; empty when there is none."""
    return shutil.which("alertmanager") or shutil.which("prometheus-alertmanager") or ""


def behind(plan: ServicePlan) -> str:
    """The address at which Prometheus and Alertmanager listen, behind the guard of the service `metrics`.

    It is one of the 16 million of loopback that Linux has, so that a page of the web would have to guess it.
    Other systems have one alone: there is no guard.
    """
    if sys.platform != "linux" or "metrics" not in plan.ports:
        return LOOPBACK
    first, second, third = hashlib.sha256(f"prometheus {plan.secrets.ray_token}".encode()).digest()[:3]
    return f"127.{1 + first % 254}.{second}.{1 + third % 254}"


def rules() -> dict[str, str]:
    """Files of alerts, by name: those of the containers."""
    return {path.name: path.read_text(encoding="utf-8") for path in SETTINGS.glob("*.rules.yml")}


def config(plan: ServicePlan) -> str:
    """prometheus.yml: that of the containers, with this lab's addresses and secret files."""
    text = (SETTINGS / "prometheus.yml").read_text(encoding="utf-8")
    here = {
        "/run/secrets/": f"{plan.layout.secrets.name}/",  # from the file's own folder
        "/run/*.targets.yml": "*.targets.yml",
        "ray-head:8265": f"{LOOPBACK}:{plan.ports['dashboard']}",
        "minio:9000": f"{LOOPBACK}:{plan.ports['s3']}",
        "metrics:9101": f"{LOOPBACK}:{plan.ports.get('metrics', PORTS['metrics'].usual)}",
        "queue:8266": f"{LOOPBACK}:{plan.ports.get('queue', PORTS['queue'].usual)}",
        "127.0.0.1:9090": f"{LOOPBACK}:{plan.ports['prometheus']}",
        "alertmanager:9093": f"{behind(plan)}:{plan.ports.get('alertmanager')}",
    }
    if "alertmanager" not in plan.ports:
        text = text.partition("\nalerting:")[0]
    for there, replacement in here.items():
        text = text.replace(there, json.dumps(replacement)[1:-1])
    return text


def alerting(environ: Mapping[str, str]) -> str:
    """alertmanager.yml: the file that the caller names, else that of the containers. Raises UsageError."""
    path = Path(environ.get(ALERTS_VARIABLE) or ROOT / "compose" / "alertmanager" / "alertmanager.yml")
    try:
        return path.expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{ALERTS_VARIABLE}: cannot read {path}: {error}", "name a file of settings"
        ) from error


def argv(plan: ServicePlan) -> tuple[str, ...]:
    """Prometheus' command line, whose status pages show paths to whoever reaches its port.

    All are relative to the lab's folder. It listens behind the service `metrics`, which refuses other names.
    """
    return (
        plan.prometheus,
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=prometheus",
        f"--web.listen-address={behind(plan)}:{plan.ports['prometheus']}",
        "--web.cors.origin=none",  # no origin is called so: no page of another may read the answers
    )


def alertmanager_argv(plan: ServicePlan) -> tuple[str, ...]:
    """Alertmanager's command line: behind `metrics` too, and without a port for others of its kind."""
    return (
        plan.alertmanager,
        "--config.file=alertmanager.yml",
        "--storage.path=alertmanager",
        f"--web.listen-address={behind(plan)}:{plan.ports['alertmanager']}",
        f"--web.external-url={plan.url('alertmanager')}/",
        "--cluster.listen-address=",
    )


def guards(plan: ServicePlan) -> tuple[str, ...]:
    """Options by which `metrics` stands before both; none where there is no address to hide behind."""
    hidden = behind(plan)
    ports = [plan.ports[name] for name in GUARDED if name in plan.ports and hidden != LOOPBACK]
    return tuple(word for port in ports for word in ("--guard", f"{LOOPBACK}:{port}=http://{hidden}:{port}"))
