"""Snapshot of a cluster by Ray's dashboard: nodes, jobs, actors, placement groups, tasks.

Five requests, however many jobs there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lab.cluster.api import Node, RayApi, Row
from lab.cluster.jobs import Job, Jobs

SUPERVISOR = "_ray_internal_job_actor_"
"""Name of the actor that runs a job's entrypoint, before the submission id (ray 2.60)."""

IN_GROUP = re.compile(r"(?P<name>.+)_group_(?:(?P<bundle>\d+)_)?(?P<group>[0-9a-f]{32,})")
"""A resource of a placement group: `GPU_group_0_<id>` of its bundle 0, `GPU_group_<id>` of any bundle."""


@dataclass(frozen=True)
class Actor:
    """One actor that has not ended. `resources` are what it holds of a node itself, outside of groups."""

    class_name: str
    name: str
    label: str
    """Its own name for itself, else its class."""
    state: str
    job_id: str
    node_id: str
    pid: int
    """0 until it has a process."""
    resources: Mapping[str, float]
    group: str = ""
    bundle: int | None = None
    bare: bool = False
    """True if it asks for nothing at all, so that Ray does not say what it wants to place it."""


@dataclass(frozen=True)
class Bundle:
    """Reservation of a placement group on one node; `node_id` is empty until it is made."""

    resources: Mapping[str, float]
    node_id: str


@dataclass(frozen=True)
class Group:
    """One placement group that has not been removed."""

    group_id: str
    job_id: str
    state: str
    bundles: tuple[Bundle, ...]
    scheduling: str
    """Ray's word on how its scheduling goes, such as NO_RESOURCES or INFEASIBLE."""


@dataclass(frozen=True)
class Task:
    """One remote function call that has not ended."""

    name: str
    state: str
    job_id: str
    node_id: str
    resources: Mapping[str, float]


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment."""

    nodes: tuple[Node, ...]
    """The living ones."""
    jobs: tuple[Job, ...]
    """Every job and every other driver, the ended ones too, oldest first."""
    actors: tuple[Actor, ...]
    groups: tuple[Group, ...]
    tasks: tuple[Task, ...]

    def owner(self, job_id: str) -> str:
        """The name of the job with Ray's own id `job_id`."""
        submission_id = next((job.submission_id for job in self.jobs if job.driver_id == job_id), "")
        return submission_id or f"driver {job_id}"

    def service(self, node_id: str) -> str:
        """The service of a living node, or empty."""
        return next((node.service for node in self.nodes if node.node_id == node_id), "")


def read(api: RayApi) -> Snapshot:
    """The cluster now. Raises ClusterError."""
    jobs = Jobs(api).everything()
    return Snapshot(
        nodes=tuple(node for node in api.nodes() if node.alive),
        jobs=tuple(sorted(jobs, key=lambda job: job.started_at or 0.0)),
        actors=api.rows("actors", _actor, ("state", "!=", "DEAD")),
        groups=api.rows("placement_groups", _group, ("state", "!=", "REMOVED")),
        tasks=api.rows(
            "tasks",
            _task,
            ("type", "=", "NORMAL_TASK"),
            ("state", "!=", "FINISHED"),
            ("state", "!=", "FAILED"),
        ),
    )


def _actor(row: Row) -> Actor:
    group, bundle = "", None
    asked = row.get("required_resources") or {}
    for key in asked:
        match = IN_GROUP.fullmatch(key)
        if match:
            group = match["group"]
            bundle = int(match["bundle"]) if match["bundle"] is not None else bundle
    return Actor(
        class_name=str(row["class_name"]),
        name=str(row.get("name") or ""),
        label=str(row.get("repr_name") or row["class_name"]),
        state=str(row["state"]),
        job_id=str(row.get("job_id") or ""),
        node_id=str(row.get("node_id") or ""),
        pid=int(row.get("pid") or 0),
        resources=_resources({k: v for k, v in asked.items() if not IN_GROUP.fullmatch(k)}),
        group=group,
        bundle=bundle,
        bare=not asked,
    )


def _group(row: Row) -> Group:
    return Group(
        group_id=str(row["placement_group_id"]),
        job_id=str(row.get("creator_job_id") or ""),
        state=str(row["state"]),
        bundles=tuple(
            Bundle(_resources(bundle["unit_resources"]), str(bundle.get("node_id") or ""))
            for bundle in row.get("bundles") or ()
        ),
        scheduling=str((row.get("stats") or {}).get("scheduling_state") or ""),
    )


def _task(row: Row) -> Task:
    in_group = bool(row.get("placement_group_id"))
    return Task(
        name=str(row.get("name") or row.get("func_or_class_name") or ""),
        state=str(row["state"]),
        job_id=str(row.get("job_id") or ""),
        node_id=str(row.get("node_id") or ""),
        resources={} if in_group else _resources(row.get("required_resources") or {}),
    )


def _resources(amounts: Mapping[str, float]) -> dict[str, float]:
    """Without the marks `node:...` by which Ray ties things to one node."""
    return {str(k): float(v) for k, v in amounts.items() if not k.startswith("node:") and float(v) > 0}
