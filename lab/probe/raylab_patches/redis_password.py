"""`ray start --head` with its state in a Redis whose password is in a file, and on no command line.

RAY_REDIS_ADDRESS says where Redis is, PASSWORD_FILE where its password. Ray takes the password as an option
and hands it to its processes as one, where every user of the machine can read it; here its control store (ray
2.60, `ray._private.services.start_gcs_server`) gets it by its environment. Nobody else needs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from raylab_patches import ray_start
from raylab_switches import active

PASSWORD_FILE = "RAYLAB_REDIS_PASSWORD_FILE"
"""Variable of the file that holds Redis' password."""

BY_ENVIRONMENT, VARIABLE = "--fromenv=redis_password", "FLAGS_redis_password"
"""Option and variable by which a program with gflags reads an option from its environment."""


def password(argv: list[str], environment: Mapping[str, str] = os.environ) -> str:
    """The password that a head node needs; empty for other nodes, and where Ray keeps its state itself."""
    path = environment.get(PASSWORD_FILE, "")
    return Path(path).read_text().strip() if path and "--head" in argv else ""


def hide(services: Any, secret: str) -> None:
    """Let `services`, Ray's module of that name, start no process with the password in its options."""
    start: Callable[..., Any] = services.start_ray_process
    start_raylet: Callable[..., Any] = services.start_raylet
    option = f"--redis_password={secret}"

    def start_process(command: list[str], *args: Any, **options: Any) -> Any:
        if option in command:
            command = [BY_ENVIRONMENT if word == option else word for word in command]
            options["env_updates"] = {**(options.get("env_updates") or {}), VARIABLE: secret}
        if any(secret in word for word in command):
            ray_start.refuse("redis_password", "a process of Ray would be given the password as an option")
        return start(command, *args, **options)

    def start_node(*args: Any, **options: Any) -> Any:
        return start_raylet(*args, **{**options, "redis_password": None})

    services.start_ray_process, services.start_raylet = start_process, start_node


def forget_workers(services: Any) -> None:
    """Let a head start beside workers of its own cluster that outlived the last one.

    On one machine Ray finds their processes, takes them for a cluster that runs already, and refuses.
    """

    def nobody() -> set[str]:
        return set()

    nobody.cache_clear = lambda: None  # type: ignore[attr-defined]
    services.find_gcs_addresses = nobody


def prepare(argv: list[str], services: Any, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The options with the password, which no other process sees; those given where none is needed.

    With the patch off Ray gets the password as it wants it, and hands it on where every user can read it.
    """
    secret = password(argv, environment)
    if not secret:
        return argv
    if active("redis_password", environment):
        hide(services, secret)
        forget_workers(services)
    return [*argv, f"--redis-password={secret}"]
