"""The queries of the dashboards, and Prometheus' answers to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.conftest import ROOT
from tests.waiting import PATIENCE

DASHBOARD = ROOT / "compose" / "grafana" / "dashboards" / "lab.json"
QUEUES, HEALTH = DASHBOARD.with_name("queues.json"), DASHBOARD.with_name("health.json")


@dataclass(frozen=True)
class Query:
    """What a panel or an annotation asks."""

    title: str
    expr: str
    annotation: bool


def queries(dashboard: Path = DASHBOARD) -> tuple[Query, ...]:
    """Every query of a dashboard."""
    document = json.loads(dashboard.read_text(encoding="utf-8"))
    panels = [
        Query(panel["title"], target["expr"], False)
        for panel in document["panels"]
        for target in panel["targets"]
    ]
    annotations = [
        Query(annotation["name"], annotation["expr"], True) for annotation in document["annotations"]["list"]
    ]
    return (*panels, *annotations)


def cells(panels: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Every cell (column, row) that panels lie on; one that two of them lie on comes twice."""
    return [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **parameters: object) -> Any:
        """The data of an answer of its HTTP API."""
        import urllib3

        query = f"?{urlencode(parameters)}" if parameters else ""
        with urllib3.PoolManager(retries=False, timeout=PATIENCE) as pool:
            answer = pool.request("GET", f"{self.url}{path}{query}")
        document = json.loads(answer.data)
        assert document["status"] == "success", document
        return document["data"]

    def series(self, expr: str) -> list[dict[str, Any]]:
        """What a query gives now."""
        return list(self.get("/api/v1/query", query=expr)["result"])

    def over(self, expr: str, start: float, end: float, step: float = 5.0) -> list[dict[str, Any]]:
        """What a query gave between two times, in seconds since the epoch."""
        data = self.get("/api/v1/query_range", query=expr, start=start, end=end, step=step)
        return list(data["result"])

    def targets(self) -> dict[str, list[str]]:
        """What it scrapes: job -> a word on the health of each target."""
        pools: dict[str, list[str]] = {}
        for target in self.get("/api/v1/targets")["activeTargets"]:
            health = "up" if target["health"] == "up" else f"{target['scrapeUrl']}: {target['lastError']}"
            pools.setdefault(target["scrapePool"], []).append(health)
        return pools
