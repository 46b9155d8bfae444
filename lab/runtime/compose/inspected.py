"""Containers and images as `docker inspect` describes them, and what that says of a service."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lab.host.reading import parse_json
from lab.runtime.health import Seen
from lab.topology import State

PROJECT_LABEL = "com.docker.compose.project"
SERVICE_LABEL = "com.docker.compose.service"
LAB_LABEL = "io.raylab.lab"
FOLDER_LABEL = "io.raylab.folder"

LATE_SECONDS = 1.0
"""Seconds by which the engine may write down late, on a busy machine, that a container has started."""


@dataclass(frozen=True)
class Container:
    """One container of a project, as the engine sees it now."""

    id: str
    service: str
    state: str
    """`created`, `running`, `paused`, `restarting`, `exited`, `dead` or `removing`."""
    exit_code: int = 0
    error: str = ""
    """The reason why the engine could not start it."""
    out_of_memory: bool = False
    health: str = ""
    """The answer of its health check, or empty when it has none."""
    health_output: str = ""
    restarts: int = 0
    started_at: float = 0.0
    """Seconds since the epoch; 0 when it never was."""
    labels: Mapping[str, str] = field(default_factory=dict)
    image: str = ""
    cut: bool = False
    """True when it is on no network."""
    published: tuple[tuple[str, int], ...] = ()
    """Address and port of the host for every port that it publishes."""
    restart_policy: str = ""
    """The rule by which the engine starts it again by itself: `no`, `on-failure`, ..."""

    @property
    def alive(self) -> bool:
        """True when it has processes."""
        return self.state in ("running", "paused", "restarting")


@dataclass(frozen=True)
class ImageInfo:
    """One image that the engine has."""

    id: str
    size: int
    """Bytes."""
    labels: Mapping[str, str] = field(default_factory=dict)
    created: str = ""


def container(row: Mapping[str, Any]) -> Container:
    """From one record of `docker inspect`."""
    state = row["State"]
    health = state.get("Health") or {}
    log = health.get("Log") or [{}]
    labels = row["Config"].get("Labels") or {}
    return Container(
        id=row["Id"],
        service=labels.get(SERVICE_LABEL, ""),
        state=state["Status"],
        exit_code=int(state.get("ExitCode") or 0),
        error=str(state.get("Error") or ""),
        out_of_memory=bool(state.get("OOMKilled")),
        health=str(health.get("Status") or "").replace("none", ""),
        health_output=" ".join(str(log[-1].get("Output") or "").split()),
        restarts=int(row.get("RestartCount") or 0),
        started_at=seconds(state.get("StartedAt") or ""),
        labels=labels,
        image=str(row["Config"].get("Image") or ""),
        cut=not (row.get("NetworkSettings") or {}).get("Networks"),
        published=_published(row),
        restart_policy=str(((row.get("HostConfig") or {}).get("RestartPolicy") or {}).get("Name") or ""),
    )


def _published(row: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """A container in the host's own network counts as one that publishes everything."""
    if (row.get("HostConfig") or {}).get("NetworkMode") == "host":
        return (("0.0.0.0", 0),)
    bound = ((row.get("NetworkSettings") or {}).get("Ports") or {}).values()
    return tuple(
        (host.get("HostIp") or "0.0.0.0", int(host["HostPort"])) for hosts in bound for host in hosts or ()
    )


def seconds(text: str) -> float:
    """Docker's time, such as 2026-11-21T00:33:26.531790123Z, in seconds since the epoch; 0 for none."""
    match = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$", text)
    if not match or text.startswith("0001-"):
        return 0.0
    whole = datetime.fromisoformat(match[1] + ("+00:00" if match[3] == "Z" else match[3])).timestamp()
    return whole + float(match[2] or 0)


def is_called(record: Mapping[str, object], name: str) -> bool:
    """True when an image of the engine answers to `name`, which may have a tag, a digest or both."""
    tags, digests = record.get("RepoTags") or [], record.get("RepoDigests") or []
    assert isinstance(tags, list)
    assert isinstance(digests, list)
    reference, _, digest = name.partition("@")
    if not digest:
        full = reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"
        return any(_short(full) == _short(tag) for tag in tags) or record.get("Id") == name
    repository, separator, tag = reference.rpartition(":")
    repository = repository if separator and "/" not in tag else reference
    return any(_short(f"{repository}@{digest}") == _short(known) for known in digests)


def _short(name: str) -> str:
    """A name as the engine shows it: without the registry that is meant anyway."""
    return name.removeprefix("docker.io/").removeprefix("library/")


def image(record: Mapping[str, Any]) -> ImageInfo:
    """From one record of `docker image inspect`."""
    labels = (record.get("Config") or {}).get("Labels") or {}
    return ImageInfo(record["Id"], record["Size"], labels, record.get("Created", ""))


def seen(container: Container | None) -> Seen:
    if container is None:
        return Seen(State.ABSENT, "not started")
    unhealthy = container.health not in ("healthy", "")
    said = f": {container.health_output}" if container.health_output else ""
    state, detail = _state(container)
    return Seen(
        state,
        detail,
        container.started_at - LATE_SECONDS,
        f"its health check says {container.health}{said}" if unhealthy else "",
        container=container.id[:12],
    )


def _state(container: Container) -> tuple[State, str]:
    if container.state == "created":
        return State.ABSENT, container.error or "not started"
    if container.state == "paused":
        return State.PAUSED, "its container is paused"
    if container.state == "restarting":
        return State.STARTING, f"it ended with exit code {container.exit_code} and is started again"
    if container.state != "running":
        return State.EXITED, ended(container)
    return State.RUNNING, "its container is cut off from the lab's network" if container.cut else ""


def ended(container: Container) -> str:
    if container.out_of_memory:
        return "its container was killed: it reached its memory limit"
    if container.exit_code == 137:
        return "its container was killed (SIGKILL)"
    if container.exit_code == 143:
        return "its container was ended (SIGTERM)"
    return container.error or f"its container has ended with exit code {container.exit_code}"


def event_times(lines: str, container: str, actions: Collection[str]) -> list[float]:
    """Times of the events that a container had (seconds since the epoch), itself or on a network.

    `lines` are those of `docker events` in JSON; what is none of them is left out.
    """
    times = []
    for line in lines.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            event = parse_json(line)
            actor = event["Actor"]
            mine = container in (actor["ID"], actor["Attributes"].get("container"))
            if mine and event["Action"] in actions:
                times.append(event["timeNano"] / 1e9)
    return times
