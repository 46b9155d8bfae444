"""lab.host.command.stream as the Docker Engine's images call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from lab.host import command


class Run(Protocol):
    """Runs a process to its end, and ends it when interrupted."""

    def __call__(
        self,
        argv: list[str],
        env: Mapping[str, str],
        on_line: Callable[[str], None],
        on_tick: Callable[[], None],
        keep: int | None,
    ) -> int:
        """The exit code. `on_line` gets each line of its output; `keep` is a descriptor that it inherits."""


def run_process(
    argv: list[str],
    env: Mapping[str, str],
    on_line: Callable[[str], None],
    on_tick: Callable[[], None],
    keep: int | None = None,
) -> int:
    """The Run of a real machine. Raises OSError when the program cannot be started."""
    fds = () if keep is None else (keep,)
    return command.stream(argv, on_line, env=env, on_silence=on_tick, pass_fds=fds).returncode
