"""Prometheus of the local runtime: its settings, and where it listens."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import TYPE_CHECKING

from lab.host.files import ROOT
from lab.runtime.ports import LOOPBACK
from lab.services import PORTS

if TYPE_CHECKING:
    from lab.runtime.local.services import Plan

SETTINGS = ROOT / "compose" / "prometheus"
"""Those of the containers."""


def behind(plan: Plan) -> str:
    """The address at which Prometheus itself listens, behind the guard of the service `metrics`.

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


def config(plan: Plan) -> str:
    """prometheus.yml: that of the containers, with this lab's addresses and secret files."""
    text = (SETTINGS / "prometheus.yml").read_text(encoding="utf-8")
    here = {
        "/run/secrets/": f"{plan.layout.secrets.name}/",  # from the file's own folder
        "ray-head:8265": f"{LOOPBACK}:{plan.ports['dashboard']}",
        "minio:9000": f"{LOOPBACK}:{plan.ports['s3']}",
        "metrics:9101": f"{LOOPBACK}:{plan.ports.get('metrics', PORTS['metrics'].usual)}",
        "queue:8266": f"{LOOPBACK}:{plan.ports.get('queue', PORTS['queue'].usual)}",
        "127.0.0.1:9090": f"{LOOPBACK}:{plan.ports['prometheus']}",
    }
    for there, replacement in here.items():
        text = text.replace(there, json.dumps(replacement)[1:-1])
    return text
