"""The state of a service's container, before the service itself is asked whether it serves."""

from __future__ import annotations

from lab.runtime.compose.inspected import Container
from lab.runtime.health import Seen
from lab.topology import State


def seen(container: Container | None) -> Seen:
    """The container of a service now."""
    if container is None:
        return Seen(State.ABSENT, "not started")
    unhealthy = container.health not in ("healthy", "")
    said = f": {container.health_output}" if container.health_output else ""
    state, detail = _state(container)
    return Seen(
        state,
        detail,
        container.started_at,
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
    return State.RUNNING, "its container is cut off the lab's network" if container.cut else ""


def ended(container: Container) -> str:
    """The end of a container, in words."""
    if container.out_of_memory:
        return "its container was killed: it reached its memory limit"
    if container.exit_code == 137:
        return "its container was killed (SIGKILL)"
    if container.exit_code == 143:
        return "its container was ended (SIGTERM)"
    return container.error or f"its container has ended with exit code {container.exit_code}"
