"""Acts on one container of which the engine may say that they failed, although they did not.

On a busy machine `docker kill` answers "tried to kill container, but did not receive an exit event", or not
at all, while the container ends all the same: a moment later, or before. So its state is looked at.
"""

from __future__ import annotations

from collections.abc import Callable

from lab.errors import EngineError, UnsupportedError
from lab.host.clock import WALL, Clock, settle
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.inspected import Container
from lab.topology import Struck

PATIENCE_SECONDS = 15.0
"""Time to look, after an error, whether it was done all the same."""


BY_ITSELF = "on-failure"
KILL_ALL = ("python", "-I", "-c", "import os, signal; os.kill(-1, signal.SIGKILL)")
"""Kills every process of the container but this one and process 1, which ends when its only child has."""

EVENTS = {"kill": ("kill", "die"), "stop": ("kill", "die"), "pause": ("pause",)}
"""Verb -> the engine's events that say when it was done."""

KILL_SECONDS = 30.0
NOT_FOUND = (126, 127)

UNFROZEN = "unable to freeze"
FREEZE_TRIES = 5
"""runc thaws what has not frozen after a thousand looks, some seconds of a busy machine, and leaves it to its
caller to try again (https://github.com/opencontainers/runc/pull/4388)."""


class Acts:
    """Acts on containers, done for sure."""

    def __init__(self, engine: DockerEngine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def kill(self, container: Container, *, gone: bool = False) -> Struck:
        """SIGKILL; returns when nothing of the container runs. `gone`: one that ended meanwhile is no error.

        Raises EngineError.
        """
        return self._do("kill", container, lambda current: not current.alive, gone=gone)

    def stop(self, container: Container, grace: int) -> Struck:
        """SIGTERM, and SIGKILL after `grace` seconds. Raises EngineError."""
        return self._do("stop", container, lambda current: not current.alive, f"--time={grace}", grace=grace)

    def pause(self, container: Container) -> Struck:
        """Freeze it, at the latest at the fifth try. Raises EngineError."""
        for _ in range(FREEZE_TRIES - 1):
            try:
                return self._freeze(container)
            except EngineError as error:
                if UNFROZEN not in str(error):
                    raise
        return self._freeze(container)

    def _freeze(self, container: Container) -> Struck:
        return self._do("pause", container, lambda current: current.state == "paused")

    def unpause(self, container: Container) -> None:
        """Let it go on. Raises EngineError."""
        self._do("unpause", container, lambda current: current.state != "paused")

    def crash(self, container: Container) -> Struck:
        """Kill the processes of a container from inside, so that the engine starts it again.

        A container that `docker kill` ended stays down whatever its restart policy. So its processes are
        killed from inside, and the policy that lets the engine start it again is given only for as long as
        that is wanted: a node that was killed on purpose stays down.
        """
        if container.state == "paused":
            raise EngineError(f"{container.service} is paused: nothing can be run in it", "`labctl heal`")
        if container.restart_policy != BY_ITSELF:
            self._engine.act("update", [container.id], f"--restart={BY_ITSELF}")
        first = WALL()
        code, said = self._engine.execute(container.id, KILL_ALL, KILL_SECONDS)
        if code in NOT_FOUND:
            raise UnsupportedError(
                f"{container.service} cannot be crashed: its image has no Python ({said.strip()})",
                "choose a node of the cluster",
            )
        return self._engine.struck(container.id, EVENTS["kill"], Struck(first, WALL()))

    def calm(self, container: Container) -> None:
        """Take back the policy that `crash` gave a node. Raises EngineError."""
        if container.restart_policy == BY_ITSELF:
            self._engine.act("update", [container.id], "--restart=no")

    def _do(
        self,
        verb: str,
        container: Container,
        done: Callable[[Container], bool],
        *options: str,
        grace: float = 0.0,
        gone: bool = False,
    ) -> Struck:
        problem: EngineError | None = None
        first = WALL()
        try:
            self._engine.act(verb, [container.id], *options, grace=grace, gone=gone)
        except EngineError as error:
            if UNFROZEN in str(error):
                raise
            problem = error

        def over() -> bool:
            nonlocal problem
            try:
                return all(done(current) for current in self._engine.inspect([container.id]))
            except EngineError as error:  # it may be too busy to answer
                problem = problem or error
                return False

        if not settle(over, bool, timeout=PATIENCE_SECONDS, clock=self._clock):
            raise problem or EngineError(
                f"`docker {verb}` had no effect on {container.service} within {PATIENCE_SECONDS:g} s",
                "`labctl status`; restart the engine: `sudo systemctl restart docker`, or Docker Desktop",
            )
        return self._engine.struck(container.id, EVENTS.get(verb, ()), Struck(first, WALL()))
