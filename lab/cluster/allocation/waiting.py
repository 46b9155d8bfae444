"""Jobs that wait, what they wait for, and who holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab.cluster.allocation.model import Holding, Kind, Waiting, amounts
from lab.cluster.allocation.snapshot import SUPERVISOR, Group, Snapshot
from lab.cluster.allocation.usage_by_job import free, holdings, job_of, part, take
from lab.cluster.api import Node, infeasible

CONTROLLER = "TrainController"
"""Class of the actor that leads a run of Ray Train (ray 2.60)."""

GROUP, BUNDLES = "placement group", "bundles of the placement group"
"""Name of what waits, and of its parts."""

NO_PROCESS = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "RESTARTING")
"""States of an actor that has not begun."""

TO_PLACE: Mapping[str, float] = {"CPU": 1.0}
"""Demand of Ray to place an actor whose class names no resources, though it holds none then (ray 2.60)."""

URGENCY: Sequence[Kind] = ("infeasible", "others", "starting")

Left = dict[str, dict[str, float]]


@dataclass(frozen=True)
class PendingDemand:
    """Something that asks for resources. `units` are needed at once; of a task's calls one is enough."""

    job: str
    what: str
    units: tuple[Mapping[str, float], ...]
    count: int
    hopeless: bool = False
    """True if Ray itself calls it infeasible."""
    placed: bool = False
    """True if Ray has found a place for it already, without saying where."""


def waiting(snapshot: Snapshot) -> dict[str, Waiting]:
    """Job -> the reason for which it, or a part of it, waits; `starting` only for jobs that have not begun.

    A job that has to queue for more of what it has already, as a Tune job its next trial, does not wait.
    """
    held = holdings(snapshot)
    left = free(snapshot.nodes, held)
    living = {job.submission_id: job for job in snapshot.jobs if not job.final}
    verdicts: dict[str, Waiting] = {}
    starting: list[Holding] = []
    for pending in sorted(_pending(snapshot), key=lambda p: (not p.placed, list(living).index(p.job))):
        verdict = _judge(pending, snapshot.nodes, (*held, *starting), left)
        if verdict.kind == "starting":
            starting += _reserve(pending, left)
        if verdict.kind == "others" and _works(pending.job, verdict.short, held):
            continue
        if verdict.kind == "starting" and living[pending.job].status != "PENDING":
            continue
        before = verdicts.get(pending.job)
        if before is None or URGENCY.index(verdict.kind) < URGENCY.index(before.kind):
            verdicts[pending.job] = verdict
    for job in living.values():
        if job.status == "PENDING" and job.submission_id not in verdicts:
            verdicts[job.submission_id] = _begins(job.submission_id, {}, 1, "entrypoint")
    return verdicts


def _pending(snapshot: Snapshot) -> Iterable[PendingDemand]:
    """Everything of living jobs that asks for resources and has none."""
    living = {job.submission_id: job for job in snapshot.jobs if not job.final}
    for actor in snapshot.actors:
        job = job_of(actor, snapshot)
        idle = actor.state in NO_PROCESS and not actor.node_id
        if job in living and idle and not actor.group:
            asked = actor.resources
            if actor.bare and not actor.name.startswith(SUPERVISOR) and actor.class_name != CONTROLLER:
                asked = TO_PLACE
            if asked:
                yield PendingDemand(job, part(actor), (asked,), 1, placed=bool(actor.pid))
            elif actor.name.startswith(SUPERVISOR):
                yield PendingDemand(job, "entrypoint", (), 1)
    trains = {actor.job_id for actor in snapshot.actors if actor.class_name == CONTROLLER}
    for group in snapshot.groups:
        job = snapshot.owner(group.job_id)
        units = _unplaced(group)
        if job in living and units:
            what = "ranks" if group.job_id in trains else GROUP
            yield PendingDemand(job, what, units, len(units), group.scheduling == "INFEASIBLE")
    calls: Counter[tuple[str, str, tuple[tuple[str, float], ...]]] = Counter()
    for task in snapshot.tasks:
        if task.state == "PENDING_NODE_ASSIGNMENT" and task.resources:
            calls[(snapshot.owner(task.job_id), task.name, tuple(sorted(task.resources.items())))] += 1
    for (job, name, resources), count in calls.items():
        if job in living:
            yield PendingDemand(job, f"task {name}", (dict(resources),), count)


def _unplaced(group: Group) -> tuple[Mapping[str, float], ...]:
    if group.state in ("CREATED", "REMOVED"):
        return ()
    return tuple(bundle.resources for bundle in group.bundles if not bundle.node_id and bundle.resources)


def _judge(pending: PendingDemand, nodes: Sequence[Node], held: Sequence[Holding], left: Left) -> Waiting:
    if not pending.units:
        return _begins(pending.job, {}, pending.count, pending.what)
    demand = max(pending.units, key=_size)
    if pending.placed:
        return _begins(pending.job, demand, pending.count, pending.what)
    why = _never(pending, nodes)
    if why:
        most = {r: max((n.resources.get(r, 0.0) for n in nodes), default=0.0) for r in demand}
        short = tuple(sorted(r for r in demand if most[r] < demand[r]) or sorted(demand))
        return Waiting(pending.job, "infeasible", pending.what, demand, pending.count, why, (), short)
    fit, many = len(_fitting(pending.units, left)), len(pending.units)
    if fit == many:
        return _begins(pending.job, demand, pending.count, pending.what)
    able = [n for n in nodes if any(infeasible(unit, (n,)) is None for unit in pending.units)]
    lacking = {r for n in able for r in _lacking(pending.units, left[n.service])}
    short = tuple(sorted(lacking or {r for unit in pending.units for r in unit}))
    holders = tuple(
        h for h in held if h.service in {n.service for n in able} and any(h.resources.get(r) for r in short)
    )
    several = f"{many} x " if many > 1 else ""
    some = f", of which {fit} fit now" if fit else ""
    spare = ", ".join(
        f"{n.service} {' and '.join(f'{left[n.service].get(r, 0.0):g} {r}' for r in short)}" for n in able
    )
    reason = f"needs {several}{amounts(demand)}{some}; free: {spare}"
    return Waiting(pending.job, "others", pending.what, demand, pending.count, reason, holders, short)


def _never(pending: PendingDemand, nodes: Sequence[Node]) -> str:
    """The reason for which even free nodes could not meet the demand; empty if they could, or may."""
    units = BUNDLES if pending.what == GROUP else pending.what
    every_unit = f" (for each of {len(pending.units)} {units})" if len(pending.units) > 1 else ""
    for unit in pending.units:
        why = infeasible(unit, tuple(nodes))
        if why:
            return f"{why}{every_unit}"
    fit = len(_fitting(pending.units, free(nodes, ())))
    if fit < len(pending.units) and (pending.hopeless or _alike(pending.units) or _beyond(pending, nodes)):
        asked = amounts(max(pending.units, key=_size))
        return f"only {fit} of {len(pending.units)} {units} fit on the nodes; each asks for {asked}"
    return "Ray finds no arrangement of its nodes that meets the demand" if pending.hopeless else ""


def _alike(units: Sequence[Mapping[str, float]]) -> bool:
    """Tell whether all ask for the same: then `_fitting` places as many as any arrangement does."""
    return all(unit == units[0] for unit in units)


def _beyond(pending: PendingDemand, nodes: Sequence[Node]) -> bool:
    """Tell whether all units together ask for more than all nodes together offer."""
    return any(
        sum(unit.get(r, 0.0) for unit in pending.units) > sum(n.resources.get(r, 0.0) for n in nodes)
        for r in {r for unit in pending.units for r in unit}
    )


def _size(unit: Mapping[str, float]) -> tuple[float, list[tuple[str, float]]]:
    """The sort key of demands: GPUs count first, as they are the fewest."""
    return unit.get("GPU", 0.0), sorted(unit.items())


def _fitting(units: Iterable[Mapping[str, float]], left: Left) -> list[tuple[str, Mapping[str, float]]]:
    """(service, unit) of the units that fit on the nodes at once, the largest placed first.

    Each takes the node with the fewest kinds of resources that it does not ask for. More may fit in another
    arrangement, unless all units are alike.
    """
    left = {service: dict(amounts) for service, amounts in left.items()}
    placed = []
    for unit in sorted(units, key=_size, reverse=True):
        able = [s for s, has in left.items() if all(has.get(r, 0.0) >= amount for r, amount in unit.items())]
        others = {s: sum(amount > 0 and r not in unit for r, amount in left[s].items()) for s in able}
        where = min(able, key=others.__getitem__, default=None)
        if where is not None:
            take(left[where], unit)
            placed.append((where, unit))
    return placed


def _lacking(units: Iterable[Mapping[str, float]], has: Mapping[str, float]) -> set[str]:
    """The resources of which a node has too little for one of the units."""
    return {r for unit in units for r, amount in unit.items() if has.get(r, 0.0) < amount}


def _reserve(pending: PendingDemand, left: Left) -> list[Holding]:
    """Take from `left` what a thing that is starting will hold, so that the next one does not count on it."""
    placed = _fitting(pending.units, left)
    for service, unit in placed:
        take(left[service], unit)
    return [Holding(pending.job, service, unit, f"{pending.what}, starting") for service, unit in placed]


def _works(job: str, short: Sequence[str], held: Iterable[Holding]) -> bool:
    """Tell whether a part of the job other than its entrypoint holds some of what is short."""
    parts = [h for h in held if h.job == job and h.what != "entrypoint"]
    return any(h.resources.get(r) for h in parts for r in short)


def _begins(job: str, demand: Mapping[str, float], count: int, what: str) -> Waiting:
    reason = "Ray is preparing its environment or starting its process"
    return Waiting(job, "starting", what, demand, count, reason)
