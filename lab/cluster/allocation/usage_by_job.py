"""Resources that jobs hold, by service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from lab.cluster.allocation.model import Holding
from lab.cluster.allocation.snapshot import SUPERVISOR, Actor, Bundle, Group, Snapshot
from lab.cluster.api import Node

TRAIN_WORKER = "RayTrainWorker"
"""Class of a rank's actor in Ray Train (ray 2.60)."""

TRIAL = "ImplicitFunc"
"""Class of a trial's actor in Ray Tune, for training functions (ray 2.60)."""

RUNNING = ("RUNNING", "SUBMITTED_TO_WORKER")
BLOCKED = ("RUNNING_IN_RAY_GET", "RUNNING_IN_RAY_WAIT")
"""States of a task that waits for others: Ray lends its CPUs to them, but not its GPUs."""


def holdings(snapshot: Snapshot) -> tuple[Holding, ...]:
    """Everything that is held on the living nodes, by service."""
    held = [
        *_of_groups(snapshot),
        *_of_actors(snapshot),
        *_of_tasks(snapshot),
    ]
    return tuple(sorted(held, key=lambda h: (h.service, h.job, h.what)))


def free(nodes: Iterable[Node], held: Iterable[Holding]) -> dict[str, dict[str, float]]:
    """Service -> resource -> what is left of it."""
    left = {node.service: dict(node.resources) for node in nodes}
    for holding in held:
        take(left.get(holding.service, {}), holding.resources)
    return left


def take(left: dict[str, float], resources: Mapping[str, float]) -> None:
    """Take `resources` from what a node has left. Rounded as Ray counts, to a ten-thousandth."""
    for resource, amount in resources.items():
        left[resource] = max(0.0, round(left.get(resource, 0.0) - amount, 4))


def job_of(actor: Actor, snapshot: Snapshot) -> str:
    """The job that an actor belongs to. A job's supervisor belongs to the job that it runs."""
    if actor.name.startswith(SUPERVISOR):
        return actor.name.removeprefix(SUPERVISOR)
    return snapshot.owner(actor.job_id)


def part(actor: Actor) -> str:
    """The part of its job that an actor is."""
    if actor.name.startswith(SUPERVISOR):
        return "entrypoint"
    if actor.class_name == TRAIN_WORKER:
        return "rank"
    return f"trial {actor.label}" if actor.class_name == TRIAL else f"actor {actor.label}"


def _of_groups(snapshot: Snapshot) -> Iterable[Holding]:
    inside: dict[str, list[Actor]] = defaultdict(list)
    for actor in snapshot.actors:
        if actor.group:
            inside[actor.group].append(actor)
    for group in snapshot.groups:
        ranks = ranks_of(group, inside[group.group_id])
        for index, bundle in enumerate(group.bundles):
            service = snapshot.service(bundle.node_id)
            if service and bundle.resources:
                users = [a for a in inside[group.group_id] if a.bundle in (index, None)]
                what = f"rank {ranks[index]}" if index in ranks else part(users[0]) if users else "reserved"
                yield Holding(snapshot.owner(group.job_id), service, bundle.resources, what)


def ranks_of(group: Group, actors: Iterable[Actor]) -> dict[int, int]:
    """Bundle -> rank, of the bundles that a Ray Train rank runs in.

    Ray Train gives the ranks node by node, the nodes in the order of their first bundle (ray 2.60).
    """
    used = sorted(a.bundle for a in actors if a.class_name == TRAIN_WORKER and a.bundle is not None)
    by_node: dict[str, list[int]] = {}
    for index in used:
        bundle = group.bundles[index] if index < len(group.bundles) else Bundle({}, "")
        by_node.setdefault(bundle.node_id, []).append(index)
    return {index: rank for rank, index in enumerate(i for same in by_node.values() for i in same)}


def living_ranks(snapshot: Snapshot) -> frozenset[tuple[str, int]]:
    """(node id, process id) of every rank of Ray Train that lives."""
    return frozenset((a.node_id, a.pid) for a in snapshot.actors if a.class_name == TRAIN_WORKER and a.pid)


def _of_actors(snapshot: Snapshot) -> Iterable[Holding]:
    for actor in snapshot.actors:
        service = snapshot.service(actor.node_id)
        if service and actor.resources and not actor.group and actor.state in ("ALIVE", "PENDING_CREATION"):
            yield Holding(job_of(actor, snapshot), service, actor.resources, part(actor))


def _of_tasks(snapshot: Snapshot) -> Iterable[Holding]:
    """One holding for all calls of a function on a node."""
    total: dict[tuple[str, str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for task in snapshot.tasks:
        service = snapshot.service(task.node_id)
        if not service or task.state not in (*RUNNING, *BLOCKED):
            continue
        for resource, amount in task.resources.items():
            if task.state in RUNNING or resource == "GPU":
                total[(snapshot.owner(task.job_id), service, task.name)][resource] += amount
    for (job, service, name), resources in total.items():
        yield Holding(job, service, dict(resources), f"task {name}")
