"""Jobs of a person as the queues' controller takes them, from Ray's requests and from its own. Pure."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable, Mapping

from lab.cluster.queues import RESERVED
from lab.daemons import pages
from lab.daemons.gateway.upstream import Body
from lab.errors import UsageError
from lab.people.registry import Person
from lab.people.rights import home
from lab.topology import BUCKET

QUEUE = "default"
"""LocalQueue of a person's namespace, for jobs that name none: Kueue's rule."""

KEYS = "AWS_"
"""Beginning of variables that hold keys of a store."""

DEFAULT_WORKERS = {"count": 1, "cpus": 1}
"""Request of a job that says nothing of what it takes."""

ASKS: Mapping[str, tuple[str, type[int] | type[float]]] = {
    "workers": ("count", int),
    "cpus_per_worker": ("cpus", float),
    "gpus_per_worker": ("gpus", float),
}
"""Metadata of Ray's clients that says what a job's workers take -> its field in the request, and its type."""

UNQUEUED = ("entrypoint_memory", "entrypoint_resources", "entrypoint_label_selector")
"""What Ray's clients can ask for and no quota counts."""

PACKAGE = re.compile(r"gcs://([A-Za-z0-9._-]{1,200})")

Packages = Callable[[str], str]
"""Gives the SHA-256 of a person's package by Ray's name for it; empty where she sent none of that name."""


def body(data: Body) -> dict[str, object]:
    """The JSON object of a request. Raises UsageError."""
    return pages.body(bytes(data), dict[str, object])


def job_name(person: Person, given: str) -> str:
    """The name of a person's job: it begins with hers, so that it is in nobody else's part of the store."""
    if not given:
        given = secrets.token_hex(5)
    prefix = f"{person.name}-"
    return given if given.startswith(prefix) else prefix + given


def queue_name(person: Person, given: str) -> str:
    """NAMESPACE/NAME of the LocalQueue that a job is for: without a namespace one of her own."""
    space, slash, name = given.rpartition("/")
    return f"{space}/{name}" if slash else f"{person.name}/{name or QUEUE}"


def variables(person: Person) -> dict[str, str]:
    """Variables of a person's job: her key of the store, and no way to the lab's."""
    return {
        "AWS_ACCESS_KEY_ID": person.key.access_key,
        "AWS_SECRET_ACCESS_KEY": person.key.secret_key,
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "RAYLAB_PERSON": person.name,
        "RAYLAB_STORAGE": f"s3://{BUCKET}/{home(person.name).rstrip('/')}",
    }


def with_variables(person: Person, runtime_env: Mapping[str, object]) -> dict[str, object]:
    """Her runtime environment with these variables; what she sets herself counts. Raises UsageError."""
    given = runtime_env.get("env_vars") or {}
    if not isinstance(given, Mapping):
        raise UsageError("runtime_env.env_vars: must be an object whose values are strings")
    return {**runtime_env, "env_vars": {**variables(person), **given}}


def without_variables(person: Person | None, runtime_env: Mapping[str, object]) -> dict[str, object]:
    """A runtime environment as its owner gave it, if she is known, and without keys of any store."""
    ours = {} if person is None else variables(person)
    given = runtime_env.get("env_vars")
    kept = dict(given) if isinstance(given, Mapping) else {}
    kept = {n: v for n, v in kept.items() if not n.startswith(KEYS) and ours.get(n) != v}
    rest = {name: value for name, value in runtime_env.items() if name != "env_vars"}
    return {**rest, "env_vars": kept} if kept else rest


def from_queue(person: Person, asked: Mapping[str, object]) -> dict[str, object]:
    """A request of the controller's own form, in this person's name. Raises UsageError."""
    name, queue = asked.get("name") or "", asked.get("queue") or ""
    runtime_env = asked.get("runtime_env") or {}
    if not isinstance(name, str) or not isinstance(queue, str) or not isinstance(runtime_env, Mapping):
        raise UsageError("the request: name and queue must be strings, runtime_env an object")
    return {
        **asked,
        "name": job_name(person, name),
        "queue": queue_name(person, queue),
        "owner": person.name,
        "runtime_env": with_variables(person, runtime_env),
    }


def from_ray(person: Person, asked: Mapping[str, object], packages: Packages) -> dict[str, object]:
    """A request of Ray's Jobs API as one to the controller. Raises UsageError for what no queue can hold."""
    if unqueued := next((name for name in UNQUEUED if asked.get(name)), ""):
        raise UsageError(f"{unqueued}: no quota counts that", "ask for CPUs or GPUs")
    entrypoint, name = asked.get("entrypoint"), asked.get("submission_id") or asked.get("job_id") or ""
    if not isinstance(entrypoint, str) or not entrypoint.strip() or not isinstance(name, str):
        raise UsageError("the request: entrypoint must be a command, submission_id a string")
    metadata = _strings(asked.get("metadata"), "metadata")
    runtime_env = asked.get("runtime_env") or {}
    if not isinstance(runtime_env, Mapping):
        raise UsageError("the request: runtime_env must be an object")
    runtime_env, package = _package(runtime_env, packages)
    request = {
        "name": name,
        "queue": metadata.pop("queue", ""),
        "command": _command(entrypoint),
        "runtime_env": runtime_env,
        "priority_class": metadata.pop("priority", ""),
        "num_cpus": asked.get("entrypoint_num_cpus") or 0,
        "num_gpus": asked.get("entrypoint_num_gpus") or 0,
        "recipe": metadata.get("raylab_recipe", ""),
        "package": package,
    }
    workers = _workers(metadata)
    if not workers and not request["num_cpus"] and not request["num_gpus"]:
        workers = dict(DEFAULT_WORKERS)
    if workers:
        request["workers"] = {"count": 1, **workers}
    request["metadata"] = {name: text for name, text in metadata.items() if not name.startswith(RESERVED)}
    return from_queue(person, request)


def _command(entrypoint: str) -> list[str]:
    """The words of a command; one that only a shell understands is left to a shell, as Ray does."""
    try:
        words = shlex.split(entrypoint)
    except ValueError:
        words = []
    return words if words and shlex.join(words) == entrypoint else ["bash", "-c", entrypoint]


def _package(runtime_env: Mapping[str, object], packages: Packages) -> tuple[dict[str, object], str]:
    """The environment without the working folder that was sent, and the SHA-256 of that."""
    rest = dict(runtime_env)
    modules = rest.get("py_modules") or []
    if not isinstance(modules, list):
        raise UsageError("py_modules: must be a list")
    if any(PACKAGE.match(str(module)) for module in modules):
        raise UsageError(
            "py_modules: folders of this machine do not go through the queues",
            "put them into the working directory",
        )
    folder = str(rest.get("working_dir") or "")
    match = PACKAGE.fullmatch(folder)
    if match is None:
        return rest, ""
    del rest["working_dir"]
    sha256 = packages(match[1])
    if not sha256:
        raise UsageError(f"working_dir: {folder} was not sent, or is no longer kept", "submit it again")
    return rest, sha256


def _workers(metadata: dict[str, str]) -> dict[str, int | float]:
    """The workers that metadata ask for, which are taken out. Raises UsageError."""
    workers: dict[str, int | float] = {}
    for name, (field, kind) in ASKS.items():
        if (text := metadata.pop(name, "")) != "":
            try:
                workers[field] = kind(text)
            except ValueError:
                raise UsageError(f"metadata.{name}: {text[:40]!r} is not a number") from None
    return workers


def _strings(value: object, where: str) -> dict[str, str]:
    given = value or {}
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise UsageError(f"the request: {where} must be an object whose values are strings")
    return dict(given)
