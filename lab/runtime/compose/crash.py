"""A container whose processes all die and that its engine starts again.

A container that `docker kill` ended stays down whatever its restart policy. So its processes are killed from
inside, and the policy that lets the engine start it again is given only for as long as that is wanted: a node
that was killed on purpose stays down.
"""

from __future__ import annotations

from lab.errors import EngineError, UnsupportedError
from lab.runtime.compose.engine import Engine
from lab.runtime.compose.inspected import Container

BY_ITSELF = "on-failure"
KILL_ALL = ("python", "-I", "-c", "import os, signal; os.kill(-1, signal.SIGKILL)")
"""Every process of the container but this one and process 1, which ends when its only child has."""

KILL_SECONDS = 30.0
NOT_FOUND = (126, 127)


def crash(engine: Engine, container: Container) -> None:
    """See Runtime.crash. Raises UnsupportedError, EngineError, WaitTimeoutError."""
    if container.state == "paused":
        raise EngineError(f"{container.service} is paused: nothing can be run in it", "`labctl heal`")
    if container.restart_policy != BY_ITSELF:
        engine.act("update", [container.id], f"--restart={BY_ITSELF}")
    code, said = engine.execute(container.id, KILL_ALL, KILL_SECONDS)
    if code in NOT_FOUND:
        raise UnsupportedError(
            f"{container.service} cannot be crashed: its image has no Python ({said.strip()})",
            "crash a node of the cluster",
        )


def calm(engine: Engine, container: Container) -> None:
    """Take back the policy that `crash` gave a node. Raises EngineError."""
    if container.restart_policy == BY_ITSELF:
        engine.act("update", [container.id], "--restart=no")
