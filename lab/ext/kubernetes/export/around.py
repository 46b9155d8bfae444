"""Objects around the cluster: namespaces, Redis, what Prometheus scrapes, dashboards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from string import Template

from kueue.model import Setup
from kueue.reading.nodes import Problems, documents
from kueue.reading.plain import plain
from lab.ext.kubernetes.export.configmaps import config_map
from lab.ext.kubernetes.export.pods import labels, secret_name
from lab.ext.kubernetes.export.ray import REDIS_PORT
from lab.ext.kubernetes.export.request import ExportRequest, Object
from lab.ext.kubernetes.manifests import mapping

HERE = Path(__file__).parent
METRICS = {
    "head": ("metrics", "as-metrics", "dash-metrics"),
    "worker": ("metrics",),
}
"""Type of a node -> names of the ports that Prometheus asks."""
CLUSTER_LABEL = {
    "sourceLabels": ["__meta_kubernetes_pod_label_ray_io_cluster"],
    "targetLabel": "ray_io_cluster",
}


def namespaces(request: ExportRequest, setup: Setup) -> list[Object]:
    """The lab's namespace, and those of the queues."""
    names = dict.fromkeys((request.space, *setup.namespaces, *(space for space, _ in setup.local_queues)))
    objects = []
    for name in names:
        own = labels(request) if name == request.space else {}
        metadata: Object = {"name": name}
        if all_labels := {**own, **setup.namespaces.get(name, {})}:
            metadata["labels"] = all_labels
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return objects


def redis(request: ExportRequest) -> list[Object]:
    """Redis for the state of Ray's head, on a volume of its own."""
    return _filled("redis.yaml", request, port=REDIS_PORT, secret=secret_name(request, "redis"))


def pod_monitors(request: ExportRequest) -> list[Object]:
    """What the Prometheus of its operator scrapes: Ray's own metrics of head and workers."""
    monitors = []
    for kind, ports in METRICS.items():
        endpoints = json.dumps([{"port": port, "relabelings": [CLUSTER_LABEL]} for port in ports])
        monitors += _filled("podmonitor.yaml", request, kind=kind, endpoints=endpoints)
    return monitors


def _filled(file: str, request: ExportRequest, **values: object) -> list[Object]:
    """The objects of a file beside this one, with these values for its names."""
    own = {"lab": request.spec.name, "space": request.space, "labels": json.dumps(labels(request))}
    text = Template((HERE / file).read_text(encoding="utf-8")).substitute(own, **values)
    return [dict(mapping(plain(root))) for root in documents(text, file, Problems())]


def ray_dashboards() -> dict[str, str]:
    """Ray's own dashboards for Grafana, name -> JSON; none where Ray is not installed."""
    try:
        from ray.dashboard.modules.metrics import grafana_dashboard_factory as factory
    except ImportError:
        return {}
    return {
        "cluster": str(factory.generate_default_grafana_dashboard()[0]),
        "train": str(factory.generate_train_grafana_dashboard()[0]),
    }


def dashboards(request: ExportRequest, made: Mapping[str, str]) -> list[Object]:
    """Dashboards where the sidecar of Grafana looks for them."""
    return [
        config_map(
            f"{request.spec.name}-dashboard-{name}",
            request.space,
            {f"ray-{name}.json": text.encode()},
            {**labels(request), "grafana_dashboard": "1"},
            f"the dashboard {name}",
        )
        for name, text in made.items()
    ]
