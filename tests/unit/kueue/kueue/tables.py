"""Kueue's own tables of cases, restated as data (tests/unit/data/queue/kueue), as objects of the lab."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kueue.model import (
    Admission,
    ClusterQueue,
    Cohort,
    Config,
    FlavorQuotas,
    FlavorResource,
    Fungibility,
    LocalQueue,
    PodSet,
    PodSetAdmission,
    PreemptionPolicy,
    Quota,
    Requirement,
    ResourceFlavor,
    ResourceGroup,
    Setup,
    Taint,
    Toleration,
    Workload,
)
from kueue.quantity import amount
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "unit" / "data" / "queue" / "kueue"
NOW = 100_000.0
"""The moment that times of the tables are relative to, in seconds."""

Data = Mapping[str, Any]


def table(name: str) -> dict[str, Any]:
    """A file of cases."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return document


def quota(resource: str, amounts: Iterable[str | None]) -> Quota:
    """Nominal quota, borrowing and lending limit."""
    return Quota(*(None if value is None else amount(resource, str(value)) for value in amounts))  # type: ignore[arg-type]


def groups(data: Iterable[Mapping[str, Mapping[str, list[str]]]]) -> tuple[ResourceGroup, ...]:
    """Resource groups: flavor -> resource -> amounts."""
    return tuple(
        ResourceGroup(
            tuple(next(iter(flavors.values()))),
            tuple(
                FlavorQuotas(name, {resource: quota(resource, given) for resource, given in quotas.items()})
                for name, quotas in flavors.items()
            ),
        )
        for flavors in data
    )


def requirements(data: Iterable[tuple[str, str, list[str]]]) -> tuple[Requirement, ...]:
    """Expressions over labels."""
    return tuple(Requirement(key, operator, tuple(values)) for key, operator, values in data)


def queue(data: Data) -> ClusterQueue:
    """A ClusterQueue; `nobody` as selector is one that matches no namespace."""
    selector = data.get("selector", ())
    return ClusterQueue(
        data["name"],
        groups(data.get("groups", ())),
        data.get("cohort", ""),
        data.get("strategy", "BestEffortFIFO"),
        None if selector == "nobody" else requirements(selector),
        Fungibility(**data.get("fungibility", {})),
        PreemptionPolicy(**data.get("preemption", {})),
        data.get("stop", "None"),
        weight(data),
        data.get("usage_based", False),
    )


def cohort(data: Data) -> Cohort:
    """A cohort."""
    return Cohort(data["name"], data.get("parent", ""), groups(data.get("groups", ())), weight(data))


def door(data: Data) -> LocalQueue:
    """A LocalQueue."""
    return LocalQueue(data["namespace"], data["name"], data["queue"], data.get("stop", "None"), weight(data))


def weight(data: Data) -> float:
    """The weight of fair sharing."""
    return amount("cpu", str(data.get("weight", 1))) / 1000


def flavor(data: Data) -> ResourceFlavor:
    """A flavor."""
    return ResourceFlavor(
        data["name"],
        data.get("labels", {}),
        tuple(Taint(**taint) for taint in data.get("taints", ())),
        tuple(Toleration(**toleration) for toleration in data.get("tolerations", ())),
    )


def pod_set(data: Data) -> PodSet:
    """Pods of one shape, and what each of them asks for."""
    return PodSet(
        data.get("name", "main"),
        data.get("count", 1),
        {resource: amount(resource, asked) for resource, asked in data["asks"].items()},
        data.get("min"),
        data.get("selector", {}),
        tuple(requirements(term) for term in data.get("affinity", ())),
        tuple(Toleration(**toleration) for toleration in data.get("tolerations", ())),
    )


def admission(data: Data) -> Admission:
    """A reservation: by pod set, resource -> flavor and total."""
    return Admission(
        data["queue"],
        tuple(
            PodSetAdmission(
                pod.get("name", "main"),
                pod.get("count", 1),
                {resource: flavor for resource, (flavor, _) in pod["holds"].items()},
                {resource: amount(resource, str(total)) for resource, (_, total) in pod["holds"].items()},
            )
            for pod in data["pods"]
        ),
    )


def workload(data: Data) -> Workload:
    """A workload with its status; times are seconds after `NOW`."""

    def time(name: str) -> float | None:
        return None if data.get(name) is None else NOW + data[name]

    namespace, _, name = data["job"].partition("/")
    evicted, evicted_at = data.get("evicted", ("", None))
    return Workload(
        namespace,
        name,
        data.get("door", ""),
        tuple(pod_set(pod) for pod in data["pods"]),
        data.get("uid", ""),
        NOW + data.get("created", -NOW),
        priority=data.get("priority", 0),
        active=data.get("active", True),
        admission=admission(data["holds"]) if "holds" in data else None,
        reserved_at=time("since"),
        admitted_at=time("admitted"),
        evicted=evicted,
        evicted_at=None if evicted_at is None else NOW + evicted_at,
        finished="Succeeded" if data.get("finished") else "",
        requeues=data.get("requeues") or 0,
        requeue_at=time("requeue_at"),
        ready=data.get("ready", False),
        unready_since=time("unready"),
    )


def setup(*parts: Data, namespaces: Mapping[str, Mapping[str, str]], config: Config) -> Setup:
    """Queues, cohorts and flavors of all these parts; of the same name, the last counts."""
    queues = [queue(row) for part in parts for row in part.get("queues", ())]
    cohorts = [cohort(row) for part in parts for row in part.get("cohorts", ())]
    doors = [door(row) for part in parts for row in part.get("doors", ())]
    flavors = [flavor(row) for part in parts for row in part.get("flavors", ())]
    return Setup(
        {queue.name: queue for queue in queues},
        {cohort.name: cohort for cohort in cohorts},
        {(local_queue.namespace, local_queue.name): local_queue for local_queue in doors},
        {flavor.name: flavor for flavor in flavors},
        namespaces=namespaces,
        config=config,
    )


def usage(data: Mapping[str, Mapping[str, Any]]) -> dict[FlavorResource, int]:
    """Amounts by flavor and resource."""
    return {
        FlavorResource(name, resource): amount(resource, str(value))
        for name, amounts in data.items()
        for resource, value in amounts.items()
    }
