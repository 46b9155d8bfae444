"""Bodies of POST /jobs and /dry-run. Unknown fields are refused.

    {"name": a DNS label, or "" for one that is made up,
     "queue": "NAME" or "NAMESPACE/NAME", "command": ["python", "train.py"],
     "package": SHA-256 of a zip that was PUT before, or "", "runtime_env": {}, "metadata": {"name": "text"},
     "num_cpus": 0, "num_gpus": 0,
     "workers": {"count": 2, "min_count": 1 or null, "cpus": 4, "gpus": 1, "memory": BYTES} or null,
     "priority_class": "", "max_time": SECONDS or null,
     "owner": "", "recipe": "", "ranks": "", "preemption_grace": 20, "enforce": false,
     "retry": {"limit": 3, "pause": 90, "warmup": 300, "failure_grace": 60, "terminal_exit_codes": [],
               "retryable_exit_codes": [], "success_ttl": 604800} or null}

Only `command` is required, and `queue`, `retry` or `max_time`: a job without a queue runs at once, and is
only watched. What only a queue can keep (`ONLY_QUEUED`) is refused then. `num_cpus` and `num_gpus` are of the
entrypoint.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from kueue.model import PodSet, Setup, Workload
from kueue.reading.nodes import meant
from lab.cluster.retries import read_policy
from lab.cluster.submission import check_startable
from lab.daemons.queue.model import DRIVER, GRACE_SECONDS, WORKERS, QueuedJob
from lab.errors import NotFoundError, UsageError
from lab.host.reading import SMALL, parse_json
from lab.host.schemas import load_schema, misfits

NAMESPACE = "default"
"""Namespace of a job that names no queue."""

ONLY_QUEUED = ("priority_class", "enforce")
"""Fields that mean nothing without a queue."""


def body(data: bytes, kind: str, package: str = "lab.daemons.queue") -> dict[str, Any]:
    """The JSON object in a request, as the package's schema.json has it under this name; an empty one is {}.

    Raises UsageError that says where it is wrong.
    """
    try:
        document = parse_json(data or b"{}")
        json.dumps(document, ensure_ascii=False).encode()  # half a character cannot be stored
    except ValueError as error:
        raise UsageError(f"the request is not JSON: {error}") from error
    schema = load_schema(package)["$defs"][kind]
    found = list(misfits(document, schema, "the request"))
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        raise UsageError(f"{'; '.join(found[:3])}{more}")
    _check_texts(document, "the request")
    return dict(document)


def _check_texts(value: Any, where: str) -> None:
    """Raises UsageError for a NUL, and for a name with a control character: no system takes such ones."""
    if isinstance(value, str) and "\0" in value:
        raise UsageError(f"{where}: has a NUL character")
    if isinstance(value, dict):
        for name, inner in value.items():
            if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
                raise UsageError(f"{where}: the name {name[:80]!r} has a control character")
            _check_texts(inner, f"{where}.{name}" if where != "the request" else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _check_texts(inner, f"{where}[{number}]")


def plain(text: str) -> str:
    """A person's words, fit to be stored and shown in one line."""
    return "".join(each if each.isprintable() else " " for each in text).strip()


def queue_of(name: str, setup: Setup) -> tuple[str, str]:
    """Namespace and name of a LocalQueue, from `NAME` or `NAMESPACE/NAME`. NotFoundError, UsageError."""
    space, slash, local = name.rpartition("/")
    found = [door for door in setup.local_queues if door[1] == local and (not slash or door[0] == space)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(sorted("/".join(door) for door in found))
        raise UsageError(f"{name} is a LocalQueue in several namespaces: {names}", "give NAMESPACE/NAME")
    known = ["/".join(door) for door in setup.local_queues]
    hint = meant(name, [*known, *(door[1] for door in setup.local_queues)])
    first = "make some: labctl queue apply --example classroom"
    there = f"there are: {', '.join(sorted(known)[:20])}" if known else first
    raise NotFoundError(f"there is no LocalQueue {name}", hint or there)


def priority_of(name: str, setup: Setup) -> int:
    """The value of a WorkloadPriorityClass; without a name that of the default one, else 0. NotFoundError."""
    classes = setup.priority_classes
    if name:
        found = [each for each in classes if each.name == name]
        if not found:
            known = [each.name for each in classes]
            hint = meant(name, known) or f"there are: {', '.join(known) or 'none'}"
            raise NotFoundError(f"there is no WorkloadPriorityClass {name}", hint)
        return min(found, key=lambda each: each.pods).value
    defaults = sorted((each for each in classes if each.default), key=lambda each: each.pods)
    return defaults[0].value if defaults else 0


def workload(given: Mapping[str, Any], name: str, setup: Setup, resource: str, now: float) -> Workload:
    """The Workload of a `job`; `resource` is what a GPU is called. Raises NotFoundError, UsageError."""
    limit = given.get("max_time")
    if not given.get("queue"):
        _check_unqueued(given)
    space, queue = queue_of(given["queue"], setup) if given.get("queue") else (NAMESPACE, "")
    return Workload(
        space,
        name,
        queue,
        _pod_sets(given, resource),
        created=now,
        priority=priority_of(given.get("priority_class", ""), setup),
        max_execution=None if limit is None else float(math.ceil(limit)),
    )


def _check_unqueued(given: Mapping[str, Any]) -> None:
    """Refuse a job without a queue that nothing is to be watched of, or that asks for what a queue keeps."""
    if given.get("retry") is None and given.get("max_time") is None:
        raise UsageError(
            "the request: queue is missing", "only a job with a retry policy or a time limit may name none"
        )
    wanted = [name for name in ONLY_QUEUED if given.get(name)]
    wanted += ["workers.min_count"] if (given.get("workers") or {}).get("min_count") is not None else []
    if wanted:
        raise UsageError(f"the request: {wanted[0]} without a queue", "name one, or leave it out")


def job(given: Mapping[str, Any]) -> QueuedJob:
    """The job itself. Raises UsageError."""
    environment = given.get("runtime_env", {})
    if len(json.dumps(environment)) > SMALL:
        raise UsageError("runtime_env is larger than 1 MiB", "files belong into the working directory")
    if given.get("package") and "working_dir" in environment:
        raise UsageError("a package and runtime_env.working_dir exclude each other", "send one of them")
    check_startable(given["command"], environment)
    return QueuedJob(
        command=tuple(given["command"]),
        runtime_env=environment,
        package=given.get("package", ""),
        metadata=given.get("metadata", {}),
        num_cpus=given.get("num_cpus", 0),
        num_gpus=given.get("num_gpus", 0),
        each=_each(given.get("workers")),
        owner=plain(given.get("owner", "")),
        recipe=plain(given.get("recipe", "")),
        ranks=given.get("ranks", ""),
        priority_class=given.get("priority_class", ""),
        grace=given.get("preemption_grace", GRACE_SECONDS),
        enforce=given.get("enforce", False),
        retry=None if given.get("retry") is None else read_policy(given["retry"]),
    )


def _each(workers: Mapping[str, Any] | None) -> dict[str, float]:
    """Request of one rank, as Ray counts it."""
    names = {"CPU": "cpus", "GPU": "gpus", "memory": "memory"}
    return {ray: workers[name] for ray, name in names.items() if workers and workers.get(name)}


def _pod_sets(given: Mapping[str, Any], resource: str) -> tuple[PodSet, ...]:
    found = []
    workers = given.get("workers")
    own = _requests(given.get("num_cpus", 0), given.get("num_gpus", 0), 0, resource)
    if own or workers is None:
        found.append(PodSet(DRIVER, 1, own))
    if workers is not None:
        count, least = workers["count"], workers.get("min_count")
        if least is not None and least > count:
            raise UsageError(f"workers.min_count: must be at most count, {count}")
        each = _requests(workers.get("cpus", 0), workers.get("gpus", 0), workers.get("memory", 0), resource)
        found.append(PodSet(WORKERS, count, each, least))
    return tuple(found)


def _requests(cpus: float, gpus: float, memory: int, resource: str) -> dict[str, int]:
    """Amounts as quotas count them: thousandths of cpu, bytes, and whole GPUs."""
    wanted = {"cpu": math.ceil(round(cpus * 1000, 3)), "memory": memory, resource: math.ceil(gpus)}
    return {name: amount for name, amount in sorted(wanted.items()) if amount}
