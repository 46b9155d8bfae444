"""Manifests made for tests: good ones, and what is changed in them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from lab.ext.kubernetes.documents import Finding, LintReport
from lab.ext.kubernetes.lint import lint

Object = dict[str, Any]


def pod(image: str = "rayproject/ray:2.60.0", cpu: str = "2", memory: str = "4Gi", **more: str) -> Object:
    """The template of a node; `more` are further limits."""
    amounts = {"cpu": cpu, "memory": memory, **more}
    resources = {"limits": amounts, "requests": dict(amounts)}
    return {"spec": {"containers": [{"name": "ray", "image": image, "resources": resources}]}}


def cluster_spec() -> Object:
    """A head and two workers."""
    return {
        "rayVersion": "2.60.0",
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": pod()},
        "workerGroupSpecs": [
            {
                "groupName": "workers",
                "replicas": 2,
                "minReplicas": 2,
                "maxReplicas": 2,
                "rayStartParams": {},
                "template": pod(cpu="8"),
            }
        ],
    }


def cluster(queue: str = "") -> Object:
    """A RayCluster that nothing is wrong with."""
    metadata: Object = {"name": "lab", "namespace": "team"}
    if queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": cluster_spec()}


def job(queue: str = "") -> Object:
    """A RayJob that nothing is wrong with."""
    ray_cluster = cluster(queue)
    spec = {
        "entrypoint": "python train.py",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": ray_cluster.pop("spec"),
    }
    return {**ray_cluster, "kind": "RayJob", "spec": spec}


def queues(cpu: str = "100", memory: str = "100Gi", **more: str) -> list[Object]:
    """A flavor, a ClusterQueue with this quota, and the LocalQueue `main` of the namespace `team`."""
    quota = {"cpu": cpu, "memory": memory, **more}
    version = "kueue.x-k8s.io/v1beta2"
    flavor = {
        "name": "nodes",
        "resources": [{"name": name, "nominalQuota": value} for name, value in quota.items()],
    }
    group = {"coveredResources": list(quota), "flavors": [flavor]}
    return [
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "nodes"}},
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": "all"},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": version,
            "kind": "LocalQueue",
            "metadata": {"name": "main", "namespace": "team"},
            "spec": {"clusterQueue": "all"},
        },
    ]


def wrapper(inner: Object, queue: str = "") -> Object:
    """The same in an AppWrapper."""
    metadata: Object = {"name": "wrapped", "namespace": "team"}
    if queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": metadata,
        "spec": {"components": [{"template": inner}]},
    }


def changed(given: Object, change: Callable[[Object], Any]) -> Object:
    """A copy with a change."""
    manifest = copy.deepcopy(given)
    change(manifest)
    return manifest


def batch_job(queue: str = "", **spec: Any) -> Object:
    """A Job of Kubernetes whose pods ask for 4 CPUs each."""
    metadata: Object = {"name": "b", "namespace": "team"}
    if queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    template = changed(pod(cpu="4"), lambda m: m["spec"].update(restartPolicy="Never"))
    spec = {**spec, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def checked(objects: Sequence[Object]) -> LintReport:
    """What the checks say of these objects, in one file."""
    return lint([("m.yaml", yaml.safe_dump_all(objects, sort_keys=False))])


def errors(report: LintReport) -> list[Finding]:
    """Findings with which it cannot work."""
    return [finding for finding in report.findings if finding.level == "error"]


def rules(report: LintReport, *levels: str) -> set[str]:
    """Names of the rules that found something of these levels."""
    return {finding.rule for finding in report.findings if not levels or finding.level in levels}
