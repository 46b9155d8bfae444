"""Short forms for objects of the queues, for the tables of cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kueue.engine import Engine
from kueue.model import (
    Admission,
    ClusterQueue,
    Cohort,
    Config,
    FlavorQuotas,
    LocalQueue,
    PodSet,
    PodSetAdmission,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Setup,
    Workload,
)
from kueue.places import Change

GPU = "nvidia.com/gpu"
FLAVOR = "h100"
PLAIN = Config()

Amounts = int | tuple[int, int | None] | tuple[int, int | None, int | None]
"""Nominal quota, and with it the borrowing and the lending limit."""


def quota(amounts: Amounts) -> Quota:
    return Quota(amounts) if isinstance(amounts, int) else Quota(*amounts)


def group(flavors: Mapping[str, Amounts], resource: str = GPU) -> tuple[ResourceGroup, ...]:
    """A group of one resource: flavor -> amounts."""
    quotas = tuple(FlavorQuotas(name, {resource: quota(amounts)}) for name, amounts in flavors.items())
    return (ResourceGroup((resource,), quotas),)


def queue(
    name: str, amounts: Amounts | Mapping[str, Amounts] = 0, cohort: str = "", **rest: Any
) -> ClusterQueue:
    """A ClusterQueue of GPUs."""
    flavors = amounts if isinstance(amounts, Mapping) else {FLAVOR: amounts}
    return ClusterQueue(name, group(flavors), cohort, **rest)


def cohort(name: str, parent: str = "", amounts: Amounts | None = None, **rest: Any) -> Cohort:
    """A cohort, with GPUs of its own where amounts are given."""
    return Cohort(name, parent, () if amounts is None else group({FLAVOR: amounts}), **rest)


def setup(
    *queues: ClusterQueue, cohorts: Iterable[Cohort] = (), config: Config = PLAIN, **rest: Any
) -> Setup:
    """These queues, each with a LocalQueue of its name in namespace `ns`, and all flavors they use."""
    names = {flavor.name for queue in queues for one in queue.groups for flavor in one.flavors}
    return Setup(
        {queue.name: queue for queue in queues},
        {cohort.name: cohort for cohort in cohorts},
        rest.pop(
            "local_queues", {("ns", queue.name): LocalQueue("ns", queue.name, queue.name) for queue in queues}
        ),
        rest.pop("flavors", {name: ResourceFlavor(name) for name in names}),
        config=config,
        **rest,
    )


def job(name: str, queue: str, gpus: int, *, count: int = 1, resource: str = GPU, **rest: Any) -> Workload:
    """A workload of pods that want so many GPUs each."""
    pod_set = PodSet(count=count, requests={resource: gpus}, min_count=rest.pop("min_count", None))
    return Workload("ns", name, queue, (pod_set,), uid=name, **rest)


def running(
    name: str, queue: str, gpus: int, *, flavor: str = FLAVOR, at: float = 0.0, **rest: Any
) -> Workload:
    """A workload that holds GPUs since `at`."""
    held = PodSetAdmission("main", 1, {GPU: flavor}, {GPU: gpus})
    admission = Admission(queue, (held,))
    return job(name, queue, gpus, admission=admission, reserved_at=at, **rest)


def submitted(given: Setup, *workloads: Workload, now: float = 10.0, live: bool = False) -> Engine:
    """An engine that has all of these, and has decided nothing."""
    engine = Engine(given, live=live)
    for workload in workloads:
        engine.submit(workload, now)
    return engine


def decided(given: Setup, *workloads: Workload, now: float = 10.0, live: bool = False) -> Engine:
    """An engine that has decided about all of these."""
    engine = submitted(given, *workloads, now=now, live=live)
    engine.settle(now)
    return engine


def one_cycle(given: Setup, *workloads: Workload, now: float = 100.0) -> tuple[Engine, list[Change]]:
    """The engine after one cycle with all of these, and what happened in it."""
    engine = submitted(given, *workloads, now=now)
    return engine, engine.cycle(now)


def reasons_of(changes: Iterable[Change], event: str) -> dict[str, str]:
    """Workload -> reason, of these events."""
    return {change.workload.removeprefix("ns/"): change.reason for change in changes if change.event == event}
