"""The Lab dashboard: well formed, asks the provisioned datasource, and only for metrics that there are."""

from __future__ import annotations

import json
import re
from typing import Any

from lab.daemons.metrics import collector
from lab.daemons.metrics.follower import Follower
from lab.daemons.metrics.sources import Address, ClusterView, RunView, StoreView
from lab.faults.records import LoggedFault
from tests.conftest import ROOT
from tests.dashboard import DASHBOARD, Query, cells, queries
from tests.unit.daemons.metrics.test_collector import node

GRAFANA = ROOT / "compose" / "grafana"
DOCUMENT: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))


def served() -> set[str]:
    """The names of all metrics that lab.daemons.metrics serves."""
    cluster: Follower[ClusterView] = Follower(
        "ray", lambda: ClusterView((node("a"),), {"a": Address("ip", "ip:1")}, ())
    )
    run, fault = RunView("j", "r", 1, {"loss": 1}, 1, 1), LoggedFault("kill", "w", 1.0)
    store: Follower[StoreView] = Follower("store", lambda: StoreView((run,), (fault,)))
    for follower in (cluster, store):
        follower.look()
    return {family.name for family in collector.LabCollector(cluster, store).collect()}


def test_the_panels_lie_side_by_side_and_have_ids_titles_and_queries_of_their_own() -> None:
    panels = DOCUMENT["panels"]
    assert len({p["id"] for p in panels}) == len({p["title"] for p in panels}) == len(panels) > 10
    taken = cells(panels)
    assert len(taken) == len(set(taken))
    assert all(0 <= x < 24 for x, _ in taken)
    for panel in panels:
        refs = [target["refId"] for target in panel["targets"]]
        assert refs == sorted(set(refs))
        assert panel["type"] in ("stat", "timeseries")


def test_every_panel_and_annotation_asks_the_provisioned_datasource() -> None:
    provisioned = (GRAFANA / "provisioning" / "datasources" / "prometheus.yaml").read_text()
    wanted = {"type": "prometheus", "uid": "raylab-prometheus"}
    assert f"uid: {wanted['uid']}\n" in provisioned
    for item in (*DOCUMENT["panels"], *DOCUMENT["annotations"]["list"]):
        assert item["datasource"] == wanted


def test_ray_asks_for_the_datasource_by_its_name() -> None:
    provisioned = (GRAFANA / "provisioning" / "datasources" / "prometheus.yaml").read_text()
    compose = (ROOT / "compose" / "lab.yaml").read_text()
    (name,) = re.findall(r"RAY_PROMETHEUS_NAME: (\S+)", compose)
    assert f"- name: {name} " in provisioned


def test_the_dashboard_asks_only_for_metrics_of_the_lab_that_are_served() -> None:
    asked = {name for query in queries() for name in re.findall(r"raylab_\w+", query.expr)}
    assert asked <= served()
    assert {"raylab_node_alive", "raylab_run_epoch", "raylab_checkpoints", "raylab_fault_active"} <= asked


def test_the_document_on_metrics_names_every_metric_that_is_served() -> None:
    rows = re.findall(r"^\| `(raylab_\w+)", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    assert set(rows) == served()


def test_queries_of_panels_and_annotations_are_found() -> None:
    asked = queries()
    assert Query("Nodes alive", "sum(raylab_node_alive) or vector(0)", False) in asked
    assert Query("Faults", "raylab_fault_active", True) in asked
    assert len(asked) == sum(len(p["targets"]) for p in DOCUMENT["panels"]) + 1
