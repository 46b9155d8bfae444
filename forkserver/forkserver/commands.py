"""Makes Ray start the launcher in place of its Python processes.

Ray (2.60) starts what belongs to a node in `ray._private.services.start_ray_process`. There each command of a
Python is led through the launcher, and so are those that a raylet is told to start workers and agents with.
Ray preloads an allocator of its own into all of them; a fork cannot change its allocator, and does without.
"""

from __future__ import annotations

import os
import subprocess
import sys

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

LAUNCHER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "launcher.py")

OF_RAYLET = {
    "--python_worker_command=": "train,node",
    "--dashboard_agent_command=": "node",
    "--runtime_env_agent_command=": "node",
}
"""Option of a raylet -> the servers that what it names may be forked from."""


def led(command: Sequence[str], folder: str, levels: str) -> list[str]:
    """Command line of a Python, through the launcher."""
    return [command[0], "-I", "-S", LAUNCHER, folder, levels, *command]


def rewritten(command: Sequence[str], folder: str) -> list[str]:
    """A command that Ray starts a process with: through the launcher, or with options that lead there."""
    if command and command[0] == sys.executable:
        return led(command, folder, "node")
    return [_option(word, folder) for word in command]


def _option(word: str, folder: str) -> str:
    for option, levels in OF_RAYLET.items():
        if word.startswith(option):
            value, python = word[len(option) :], subprocess.list2cmdline([sys.executable])
            if value.startswith(f"{python} "):
                way = subprocess.list2cmdline(led([sys.executable], folder, levels))
                return f"{option}{way}{value[len(python) :]}"
    return word


def install(services: Any, folder: str) -> None:
    """Let `services`, Ray's module of that name, start processes so; once is enough."""
    start: Callable[..., Any] = services.start_ray_process
    if hasattr(start, "forkserver"):
        return

    allocator = services.propagate_jemalloc_env_var

    def start_ray_process(command: Sequence[str], *args: Any, **options: Any) -> Any:
        ours = command[0] == sys.executable
        services.propagate_jemalloc_env_var = (lambda **settings: {}) if ours else allocator
        try:
            return start(rewritten(command, folder), *args, **options)
        finally:
            services.propagate_jemalloc_env_var = allocator

    start_ray_process.forkserver = True  # type: ignore[attr-defined]
    services.start_ray_process = start_ray_process


def lead_forkserver(util: Any, folder: str) -> None:
    """Let `util`, multiprocessing's module of that name, start its own fork server through the launcher.

    The dashboard has its parts forked from one, which imports Ray anew when it starts.
    """
    spawn: Callable[..., int] = util.spawnv_passfds

    def spawnv_passfds(path: Any, args: Sequence[Any], passfds: Sequence[int]) -> int:
        words = [os.fsdecode(word) for word in args]
        if (
            words
            and words[0] == sys.executable
            and "from multiprocessing.forkserver import main" in words[-1]
        ):
            return spawn(path, led(words, folder, "node"), passfds)
        return spawn(path, args, passfds)

    util.spawnv_passfds = spawnv_passfds
