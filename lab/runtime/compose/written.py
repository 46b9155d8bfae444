"""Output of containers while they are being started, for messages and for a later look."""

from __future__ import annotations

from pathlib import Path

from lab.errors import SetupError
from lab.host.files import write_private
from lab.runtime.compose.engine import DockerEngine
from lab.runtime.compose.inspected import Container
from lab.runtime.logtail import last_lines

KEPT_LINES = 100_000
"""Lines of the log of a service that did not start that are kept in a file."""

LAST_LINES = 12
"""Lines of a log that an error shows."""


class ContainerLogs:
    """The logs of containers since one call began to start them. One that is started again keeps its log.

    What it writes then is told from what it wrote before: who has just been started has written nothing yet.
    """

    def __init__(self, engine: DockerEngine, folder: Path) -> None:
        """`folder` is where whole logs are kept."""
        self._engine, self._folder = engine, folder
        self._since: dict[str, float] = {}
        """Service -> when it was started first, as the engine counts."""

    def began(self, container: Container) -> None:
        """Note when it was started; the first time counts."""
        self._since.setdefault(container.service, container.started_at)

    def new_lines(self, container: Container) -> tuple[str, ...]:
        """The last that it wrote since it was started for the last time.

        Of one that has written nothing yet, what it wrote when this call started it before.
        """
        return self._last(container, container.started_at) or self._last(container, self._first(container))

    def lines(self, container: Container) -> tuple[str, ...]:
        """The same; else the last that it ever wrote.

        Its engine may have started it again by itself, before this call looked; and a clock that was set back
        dates lines before the start that they belong to.
        """
        return self.new_lines(container) or self._last(container, 0.0)

    def keep(self, container: Container) -> str:
        """Copy all of it, since the container's own log may go with it; says where it is."""
        path = self._folder / f"{container.service}.log"
        text = self._engine.last_lines(container.id, KEPT_LINES, self._first(container))
        text = text if text.strip() else self._engine.last_lines(container.id, KEPT_LINES)
        try:
            write_private(path, text)
        except SetupError as error:
            return f"its whole log is lost ({error.message})"
        return f"the whole log of {container.service}: {path}"

    def _first(self, container: Container) -> float:
        return min(self._since.get(container.service, container.started_at), container.started_at)

    def _last(self, container: Container, since: float) -> tuple[str, ...]:
        return last_lines(self._engine.last_lines(container.id, 5 * LAST_LINES, since), LAST_LINES)
