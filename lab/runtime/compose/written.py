"""What containers wrote while they were being started, for messages and for whoever looks afterwards."""

from __future__ import annotations

from pathlib import Path

from lab.errors import SetupError
from lab.home import write_private
from lab.runtime.compose.engine import Container, Engine
from lab.runtime.lastlines import last_lines

KEPT_LINES = 100_000
"""How much of the log of a service that did not start is kept in a file."""

LAST_LINES = 12
"""How much of a log an error shows."""


class Written:
    """The logs of containers since one call began to start them. One that is started again keeps its log.

    What it writes then is told from what it wrote before: who has just been started has written nothing yet.
    """

    def __init__(self, engine: Engine, folder: Path) -> None:
        """`folder` is where whole logs are kept."""
        self._engine, self._folder = engine, folder
        self._since: dict[str, float] = {}
        """Service -> when it was started first, as the engine counts."""

    def began(self, container: Container) -> None:
        """Note when it was started; the first time counts."""
        self._since.setdefault(container.service, container.started_at)

    def own_lines(self, container: Container) -> tuple[str, ...]:
        """The last that it wrote since it was started for the last time."""
        return self._last(container, container.started_at)

    def lines(self, container: Container) -> tuple[str, ...]:
        """The same; of one that has written nothing yet, what it wrote when it was started before."""
        return self.own_lines(container) or self._last(container, self._first(container))

    def keep(self, container: Container) -> str:
        """Copy all of it, since the container's own log may go with it; says where it is."""
        path = self._folder / f"{container.service}.log"
        text = self._engine.last_lines(container.id, KEPT_LINES, self._first(container))
        try:
            write_private(path, text)
        except SetupError as error:
            return f"its whole log is lost ({error.message})"
        return f"the whole log of {container.service}: {path}"

    def _first(self, container: Container) -> float:
        return min(self._since.get(container.service, container.started_at), container.started_at)

    def _last(self, container: Container, since: float) -> tuple[str, ...]:
        return last_lines(self._engine.last_lines(container.id, 5 * LAST_LINES, since), LAST_LINES)
