"""Queues of Kueue that go along: the lab's own files of queues, or one queue that is just large enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kueue.model import (
    ClusterQueue,
    Config,
    FlavorQuotas,
    LocalQueue,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Setup,
)
from kueue.reading.nodes import meant
from kueue.writing import objects
from lab.errors import UsageError
from lab.ext.kubernetes.export.ray import workload
from lab.ext.kubernetes.export.request import ExportRequest, Object
from lab.ext.kubernetes.export.yaml_text import as_yaml
from lab.ext.kubernetes.lint import quotas
from lab.ext.kubernetes.manifests import read_manifests
from lab.flows.queues.files import read_files

CONFIGURATION = "kueue/controller_manager_config.yaml"
"""File of Kueue's own configuration, called as its key in the ConfigMap that Kueue reads."""
FRAMEWORKS = ("batch/job", "ray.io/rayjob", "ray.io/raycluster", "workload.codeflare.dev/appwrapper")


def queues_of(request: ExportRequest) -> Setup:
    """The queues that are written; nothing without --queue. Raises UsageError, NotFoundError."""
    if not request.queue:
        return Setup()
    return given_queues(request) if request.queue_files else own_queue(request)


def given_queues(request: ExportRequest) -> Setup:
    """Queues of files, among which that of the lab must be."""
    read = read_files(request.queue_files, request.space)
    if read.errors:
        more = f" (and {len(read.errors) - 1} more)" if len(read.errors) > 1 else ""
        raise UsageError(f"{read.errors[0]}{more}", read.errors[0].hint or "labctl queue check shows all")
    names = [name for space, name in read.setup.local_queues if space == request.space]
    if request.queue not in names:
        there = f"there are: {', '.join(names)}" if names else "its files name none there"
        raise UsageError(
            f"--queue {request.queue}: namespace {request.space} has no such LocalQueue",
            meant(request.queue, names) or there,
        )
    classes = [
        priority_class.name for priority_class in read.setup.priority_classes if not priority_class.pods
    ]
    if request.priority and request.priority not in classes:
        hint = meant(request.priority, classes) or f"there are: {', '.join(classes) or 'none'}"
        raise UsageError(f"--priority {request.priority}: there is no such WorkloadPriorityClass", hint)
    return read.setup


def own_queue(request: ExportRequest) -> Setup:
    """One ClusterQueue with exactly what head, workers and submitter ask for, and its LocalQueue."""
    if request.priority:
        raise UsageError("--priority: the queue that is made has no classes", "give them with --queues FILE")
    total = demand(request)
    flavor = f"{request.spec.name}-nodes"
    amounts = {name: Quota(value) for name, value in sorted(total.items())}
    group = ResourceGroup(tuple(amounts), (FlavorQuotas(flavor, amounts),))
    queue = ClusterQueue(request.queue, (group,))
    return Setup(
        cluster_queues={request.queue: queue},
        local_queues={
            (request.space, request.queue): LocalQueue(request.space, request.queue, request.queue)
        },
        flavors={flavor: ResourceFlavor(flavor)},
    )


def demand(request: ExportRequest) -> Mapping[str, int]:
    """Resource -> what all pods of the lab ask for together; of cpu, thousandths."""
    manifests, _ = read_manifests([("", as_yaml([workload(request)]))], request.space)
    counted = quotas.workload(manifests[0], quotas.needs(manifests[0], manifests))
    assert counted is not None
    total: dict[str, int] = {}
    for pod_set in counted.pod_sets:
        for name, value in pod_set.requests.items():
            total[name] = total.get(name, 0) + value * pod_set.count
    return total


def configuration(setup: Setup) -> list[Object]:
    """Kueue's own configuration, where the queues have one; it is no object of the API server.

    Kueue takes a configuration whole, and manages only batch/job where no framework is named.
    """
    configured = objects(Setup(config=setup.config))
    return [{**settings, "integrations": {"frameworks": list(FRAMEWORKS)}} for settings in configured]


def queue_objects(setup: Setup) -> list[Object]:
    """The queues as objects of Kueue; settings of Kueue itself and namespaces are none of them."""
    return list(objects(replace(setup, config=Config(), namespaces={})))
