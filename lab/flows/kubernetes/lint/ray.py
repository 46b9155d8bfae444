"""Ray's own readers of a manifest: the autoscaler's of a cluster, and that of a runtime environment."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypedDict

from kueue.reading.nodes import meant
from lab.flows.kubernetes.clusters import JOB_AT, RAY, RayCluster, clusters, inside
from lab.flows.kubernetes.manifests import ERROR, WARNING, Finding, Manifest, items, mapping, text, value_of

CLUSTER_RULE, ENVIRONMENT_RULE, OPTION_RULE = "ray-reads-cluster", "runtime-env", "ray-start"
DEFAULTS = {"replicas": 0, "minReplicas": 0, "maxReplicas": 2**31 - 1, "numOfHosts": 1}
"""Fields of a group of workers that the API server fills in."""
NODE_TYPES = "available_node_types"


class NodeType(TypedDict):
    """A group of nodes as Ray's autoscaler takes it."""

    resources: Mapping[str, float]
    min_workers: int
    max_workers: int


class Readers:
    """Ray itself: its two readers, which raise what Ray raises, and its dashboards."""

    def __init__(
        self,
        cluster: Callable[[dict[str, object]], Mapping[str, Mapping[str, NodeType]]],
        environment: Callable[[dict[str, object]], object],
        dashboards: Mapping[str, Callable[[], str]],
        options: Sequence[str] = (),
    ) -> None:
        """`dashboards` makes those of Ray for Grafana: name -> JSON. `options` are those of `ray start`."""
        self.cluster, self.environment, self.dashboards = cluster, environment, dashboards
        self.options = options


def readers() -> Readers:
    """The readers of the installed Ray. Raises ImportError."""
    from ray.autoscaler._private.kuberay.autoscaling_config import (
        _derive_autoscaling_config_from_ray_cr as derive,
    )
    from ray.dashboard.modules.metrics import grafana_dashboard_factory as factory
    from ray.runtime_env import RuntimeEnv
    from ray.scripts.scripts import start

    logging.getLogger("ray.autoscaler").setLevel(logging.CRITICAL)  # what it logs is in the error
    return Readers(
        derive,
        lambda given: RuntimeEnv(**given),
        {
            "cluster": lambda: str(factory.generate_default_grafana_dashboard()[0]),
            "train": lambda: str(factory.generate_train_grafana_dashboard()[0]),
        },
        sorted(
            {
                flag.removeprefix("--")
                for option in start.params
                for flag in (*option.opts, *option.secondary_opts)
            }
        ),
    )


def node_types(cluster: RayCluster, ray: Readers) -> Mapping[str, NodeType]:
    """Group -> a node of it as Ray takes it: `resources`, `min_workers`, `max_workers`. Raises anything."""
    value = copy.deepcopy(dict(cluster.value))
    workers = items(value.get("workerGroupSpecs"))
    value["workerGroupSpecs"] = [DEFAULTS | dict(mapping(group)) for group in workers]
    metadata = {"name": cluster.manifest.name, "namespace": cluster.manifest.namespace}
    return ray.cluster({"metadata": metadata, "spec": value})[NODE_TYPES]


def check(manifest: Manifest, ray: Readers) -> Iterator[Finding]:
    """A cluster as Ray's autoscaler reads it, and the runtime environment of a job."""
    if manifest.group != RAY:
        return
    for cluster in clusters(manifest):
        yield from _options(cluster, ray)
        try:
            node_types(cluster, ray)
        except Exception as error:
            level = ERROR if cluster.autoscaled else WARNING
            message = f"Ray's autoscaler cannot read it: {_first_line(error)}"
            yield manifest.finding(CLUSTER_RULE, level, cluster.path, message)
    at = JOB_AT.get(manifest.kind)
    if at is not None:
        yield from _environment(manifest, inside(manifest.value, at), at, ray)


def _options(cluster: RayCluster, ray: Readers) -> Iterator[Finding]:
    """Parameters that `ray start` of the installed Ray does not know: the node would not start."""
    for group in cluster.groups:
        for name in group.params if ray.options else ():
            if name not in ray.options:
                message = f"`ray start` has no option --{name}"
                path = (*group.path, "rayStartParams", name)
                yield cluster.manifest.finding(OPTION_RULE, WARNING, path, message, meant(name, ray.options))


def _environment(
    manifest: Manifest, job: Mapping[str, object], at: tuple[str | int, ...], ray: Readers
) -> Iterator[Finding]:
    given = text(job.get("runtimeEnvYAML"))
    if not given.strip():
        return
    path = (*at, "runtimeEnvYAML")
    try:
        value = value_of(given)
    except ValueError as error:
        yield manifest.finding(ENVIRONMENT_RULE, ERROR, path, f"is {error}")
        return
    if not isinstance(value, dict):
        message = "is not a runtime environment: expected a mapping such as `pip: [...]`"
        yield manifest.finding(ENVIRONMENT_RULE, ERROR, path, message)
        return
    try:
        ray.environment(value)
    except Exception as error:
        yield manifest.finding(ENVIRONMENT_RULE, ERROR, path, f"Ray refuses it: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    words = str(error).strip() or type(error).__name__
    line = words.splitlines()[0]
    return f"{line} is missing" if isinstance(error, KeyError) else line
