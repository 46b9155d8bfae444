"""Ray's answers (ray 2.60) in the shapes that were recorded on a lab, and an API that gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from lab.cluster.api import ApiReply, RayApi

GROUP = "2b93b9f606dedd34548f6a6eb32702000000"
OTHER_GROUP = "1a8323ba552c1d04177225e7ca9006000000"
AT = 1_800_000_000.0

Row = dict[str, Any]


def node(service: str, **resources: float) -> Row:
    """A living node; its id is the service's name and `-id`."""
    return {
        "node_id": f"{service}-id",
        "node_name": service,
        "state": "ALIVE",
        "is_head_node": service == "ray-head",
        "resources_total": {**resources, "node:127.0.0.1": 1.0, "object_store_memory": 2e8},
        "start_time_ms": 1000,
        "end_time_ms": 0,
        "state_message": None,
    }


HEAD = node("ray-head", memory=6e9)
TWO = (HEAD, node("ray-worker-0", CPU=8.0, GPU=1.0), node("ray-worker-1", CPU=8.0, GPU=1.0))
"""A lab of two workers with a GPU each."""


def job(name: str, status: str = "RUNNING", *, driver: str | None = None, order: float = 0.0) -> Row:
    """A submission; `driver` is Ray's id of it once it has called ray.init."""
    return {
        "type": "SUBMISSION",
        "submission_id": name,
        "job_id": driver,
        "status": status,
        "entrypoint": "python train.py",
        "start_time": (AT + order) * 1000,
        "end_time": None if status in ("RUNNING", "PENDING") else (AT + 60) * 1000,
        "metadata": {},
    }


def driver(job_id: str, status: str = "RUNNING") -> Row:
    """A driver that was not submitted, such as a notebook's."""
    return {**job("", status, driver=job_id), "type": "DRIVER", "submission_id": None}


def actor(class_name: str, job_id: str, where: str = "", state: str = "ALIVE", **more: Any) -> Row:
    """An actor on a service; `resources` is what it asked for."""
    return {
        "actor_id": "19e0f47d26068423567279f102000000",
        "class_name": class_name,
        "state": state,
        "job_id": job_id,
        "name": more.get("name", ""),
        "node_id": f"{where}-id" if where else None,
        "pid": more.get("pid", 4321 if where else 0),
        "required_resources": more.get("resources", {}),
        "repr_name": more.get("repr_name", ""),
    }


def supervisor(name: str, where: str = "", *, pid: int | None = None, **resources: float) -> Row:
    """The actor that runs the entrypoint of job `name`; without a place it is pending."""
    state = "ALIVE" if where else "PENDING_CREATION"
    more = {} if pid is None else {"pid": pid}
    called = f"_ray_internal_job_actor_{name}"
    return actor("JobSupervisor", "01000000", where, state, name=called, resources=resources, **more)


def rank(bundle: int, job_id: str, where: str, group: str = GROUP) -> Row:
    """A rank of Ray Train in a bundle of a placement group."""
    inside = {
        f"GPU_group_{group}": 1.0, f"GPU_group_{bundle}_{group}": 1.0,
        f"bundle_group_{group}": 0.001, f"bundle_group_{bundle}_{group}": 0.001,
    }  # fmt: skip
    return actor("RayTrainWorker", job_id, where, resources=inside)


def group(
    job_id: str,
    *bundles: tuple[str, Mapping[str, float]],
    state: str = "CREATED",
    scheduling: str = "FINISHED",
    group_id: str = GROUP,
) -> Row:
    """A placement group; each bundle is (service or empty, resources)."""
    return {
        "placement_group_id": group_id,
        "creator_job_id": job_id,
        "state": state,
        "bundles": [
            {"unit_resources": dict(resources), "node_id": f"{where}-id" if where else ""}
            for where, resources in bundles
        ],
        "stats": {"scheduling_state": scheduling},
    }


def pending_group(job_id: str, count: int, scheduling: str = "NO_RESOURCES", **resources: float) -> Row:
    """A placement group of equal bundles, none of which has a place."""
    bundles = [("", resources)] * count
    return group(job_id, *bundles, state="PENDING", scheduling=scheduling)


def task(name: str, job_id: str, where: str = "", state: str = "", **resources: float) -> Row:
    """A call of a remote function; without a place it waits for one."""
    return {
        "name": name,
        "type": "NORMAL_TASK",
        "state": state or ("RUNNING" if where else "PENDING_NODE_ASSIGNMENT"),
        "job_id": job_id,
        "node_id": f"{where}-id" if where else None,
        "required_resources": resources,
        "placement_group_id": None,
    }


class Dashboard(RayApi):
    """Answers with these rows, and notes what it was asked."""

    def __init__(
        self,
        *,
        nodes: tuple[Row, ...] = TWO,
        jobs: tuple[Row, ...] = (),
        actors: tuple[Row, ...] = (),
        groups: tuple[Row, ...] = (),
        tasks: tuple[Row, ...] = (),
        reports: tuple[Row, ...] = (),
        details: Mapping[str, Row] | None = None,
    ) -> None:
        super().__init__("http://127.0.0.1:8265", "")
        self.lists: dict[str, Any] = {
            "nodes": nodes, "actors": actors, "placement_groups": groups, "tasks": tasks, "jobs": jobs
        }  # fmt: skip
        self.reports, self.details = reports, details or {}
        self.asked: list[str] = []

    def request(self, method: str, path: str, *, body: Any = None, timeout: float = 10.0) -> ApiReply:
        self.asked.append(unquote(path))
        return ApiReply(200, json.dumps(self._answer(path.partition("?")[0])).encode())

    def _answer(self, path: str) -> Any:
        if path == "/api/jobs/":
            return self.lists["jobs"]
        if path == "/nodes":
            return {"data": {"summary": self.reports}}
        if path.startswith("/nodes/"):
            return {"data": {"detail": self.details.get(path.removeprefix("/nodes/"), {})}}
        return {"data": {"result": {"result": self.lists[path.removeprefix("/api/v0/")]}}}
