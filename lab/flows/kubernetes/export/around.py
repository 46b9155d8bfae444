"""Objects around the cluster: namespaces, Redis, what Prometheus scrapes, dashboards."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kueue.model import Setup
from lab.flows.kubernetes.export.configmaps import config_map
from lab.flows.kubernetes.export.pods import labels, secret_name
from lab.flows.kubernetes.export.ray import REDIS_PORT
from lab.flows.kubernetes.export.wanted import Object, Wanted

REDIS_IMAGE = "redis:7.4"
REDIS_COMMAND = (
    "umask 077; printf 'requirepass %s\\n' \"$REDIS_PASSWORD\" >/data/redis.conf; "
    "exec redis-server /data/redis.conf --dir /data --appendonly yes --save '' --maxmemory-policy noeviction"
)
"""The password is on no command line."""
REDIS_USER = 999
METRICS = {
    "head": ("metrics", "as-metrics", "dash-metrics"),
    "worker": ("metrics",),
}
"""Type of a node -> names of the ports that Prometheus asks."""


def namespaces(wanted: Wanted, setup: Setup) -> list[Object]:
    """The lab's namespace, and those of the queues."""
    names = dict.fromkeys((wanted.space, *setup.namespaces, *(space for space, _ in setup.local_queues)))
    objects = []
    for name in names:
        own = labels(wanted) if name == wanted.space else {}
        metadata: Object = {"name": name}
        if all_labels := {**own, **setup.namespaces.get(name, {})}:
            metadata["labels"] = all_labels
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return objects


def redis(wanted: Wanted) -> list[Object]:
    """Redis for the state of Ray's head, on a volume of its own."""
    name = f"{wanted.spec.name}-redis"
    chosen = {"raylab.io/redis": wanted.spec.name}
    metadata = {"name": name, "namespace": wanted.space, "labels": labels(wanted)}
    password = {"secretKeyRef": {"name": secret_name(wanted, "redis"), "key": "password"}}
    amounts = {"cpu": "250m", "memory": "512Mi"}
    container = {
        "name": "redis",
        "image": REDIS_IMAGE,
        "command": ["sh", "-c", REDIS_COMMAND],
        "env": [{"name": "REDIS_PASSWORD", "valueFrom": password}],
        "ports": [{"name": "redis", "containerPort": REDIS_PORT}],
        "readinessProbe": {"tcpSocket": {"port": "redis"}, "periodSeconds": 5},
        "resources": {"limits": amounts, "requests": dict(amounts)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "containers": [container],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": REDIS_USER,
            "fsGroup": REDIS_USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": chosen, "ports": [{"name": "redis", "port": REDIS_PORT}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": metadata,
            "spec": {
                "serviceName": name,
                "replicas": 1,
                "selector": {"matchLabels": chosen},
                "template": {"metadata": {"labels": {**labels(wanted), **chosen}}, "spec": pod},
                "volumeClaimTemplates": [claim],
            },
        },
    ]


def pod_monitors(wanted: Wanted) -> list[Object]:
    """What the Prometheus of its operator scrapes: Ray's own metrics of head and workers."""
    monitors = []
    for kind, ports in METRICS.items():
        relabel = {
            "sourceLabels": ["__meta_kubernetes_pod_label_ray_io_cluster"],
            "targetLabel": "ray_io_cluster",
        }
        monitors.append(
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PodMonitor",
                "metadata": {
                    "name": f"{wanted.spec.name}-{kind}",
                    "namespace": wanted.space,
                    "labels": {**labels(wanted), "release": "prometheus"},
                },
                "spec": {
                    "jobLabel": "ray.io/node-type",
                    "namespaceSelector": {"matchNames": [wanted.space]},
                    "selector": {
                        "matchLabels": {"ray.io/node-type": kind, "raylab.io/lab": wanted.spec.name}
                    },
                    "podMetricsEndpoints": [{"port": port, "relabelings": [relabel]} for port in ports],
                },
            }
        )
    return monitors


def dashboards(wanted: Wanted, made: Mapping[str, Callable[[], str]]) -> list[Object]:
    """Ray's own dashboards for Grafana, where its sidecar looks for them."""
    return [
        config_map(
            f"{wanted.spec.name}-dashboard-{name}",
            wanted.space,
            {f"ray-{name}.json": make().encode()},
            {**labels(wanted), "grafana_dashboard": "1"},
            f"the dashboard {name}",
        )
        for name, make in made.items()
    ]
