"""Jobs as Ray's Jobs API shows them, made of what the queues and Ray know. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.cluster.queues import WORKLOAD
from lab.topology import JOB_FINAL

Row = Mapping[str, Any]
"""A job as the queues' controller shows it (lab.api.queue.Row), or as Ray does (its JobDetails)."""

FINISHED = "Finished"

LONGEST_ESCAPE = r"\uffff"
"""Longest escape in a text of JSON, which may be cut in its middle."""

SHOWN_OF_ALL = ("type", "job_id", "submission_id", "status", "start_time", "end_time")
"""Fields of a job that whoever may not read it sees; the others are empty."""

SHOWN_OF_ALL_IN_QUEUES = frozenset(
    {
        *("workload", "namespace", "name", "job_name", "owner", "local_queue", "cluster_queue", "priority"),
        *("priority_class", "status", "phase", "reason", "position_in_cluster_queue", "created", "attempts"),
        *("position_in_local_queue", "admitted_at", "finished_at", "executed", "submission_id", "takes_more"),
    }
)
"""The same of the queues' rows."""


def status_of(row: Row, job: Row | None) -> str:
    """Ray's word for the state of a job of the queues; `job` is its latest attempt, where Ray knows it.

    A job that was stopped for another one, or is to be tried again, has not ended.
    """
    said = "" if job is None else str(job["status"])
    if row["status"] == FINISHED:
        if said in JOB_FINAL:
            return said
        if row["reason"] == "Succeeded":
            return "SUCCEEDED"
        return "FAILED" if row["attempts"] else "STOPPED"
    if row["status"] == "Admitted" and said:
        return "RUNNING" if said in JOB_FINAL else said
    return "PENDING"


def details(row: Row, job: Row | None) -> Row:
    """The JobDetails of a job of the queues. It is called by its name, whichever attempt it is at."""
    known = dict(job or {})
    status = status_of(row, job)
    message = known.get("message") if status == known.get("status") else ""
    return {
        "type": "SUBMISSION",
        "job_id": None,
        "driver_info": None,
        "error_type": None,
        "driver_agent_http_address": None,
        "driver_node_id": None,
        "driver_exit_code": None,
        "metadata": {"job_name": row["job_name"], WORKLOAD: row["workload"]},
        "runtime_env": {},
        **known,
        "submission_id": row["name"],
        "entrypoint": row["command"],
        "status": status,
        "message": message or row.get("waits") or row["message"],
        "start_time": _milliseconds(row["admitted_at"]) or _milliseconds(row["created"]),
        "end_time": _milliseconds(row["finished_at"]),
    }


def workload_of(job: Row) -> str:
    """NAMESPACE/NAME in the queues of a job of Ray's; empty where it did not come through them."""
    return str((job.get("metadata") or {}).get(WORKLOAD, ""))


def closed(job: Row) -> dict[str, object]:
    """A job of Ray's with only what everybody sees."""
    shown = {name: job.get(name) for name in SHOWN_OF_ALL}
    hidden = {name: None for name in job if name not in shown}
    workload = workload_of(job)
    metadata = {WORKLOAD: workload} if workload else {}
    return {**hidden, **shown, "entrypoint": "", "metadata": metadata, "runtime_env": {}}


def closed_row(row: Row) -> dict[str, object]:
    """A row of the queues with only what everybody sees."""
    return {name: value if name in SHOWN_OF_ALL_IN_QUEUES else "" for name, value in row.items()}


def without_environments(value: object) -> object:
    """A document of Ray's without the runtime environments in it, which hold keys."""
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if "runtime_env" not in name}
        return {name: without_environments(inner) for name, inner in kept.items()}
    return [without_environments(inner) for inner in value] if isinstance(value, list) else value


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
