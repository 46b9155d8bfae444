"""What fast recovery does where a node starts (`raylab_patches.ray_start`).

Ray's processes are forked from the node's fork server (forkserver), where RAYLAB_FORK_FOLDER says where it
listens: the patch `forks`. A node in a container makes its own; the nodes of one host share one, which labctl
starts. Beside the head starts the judge of the others' liveness (raylab_liveness); `revival` starts a head
again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from raylab_switches import active


def begin(arguments: list[str], *, loopback: bool) -> Callable[[Any, Any, list[str]], list[str]]:
    """Start what runs beside the node; returns what changes Ray's modules once they are imported."""
    from raylab_liveness import start as liveness
    from raylab_recovery import revival

    folder = fork_folder()
    if folder and not loopback:
        import raylab_forks

        from forkserver import server

        server.start_beside(folder, raylab_forks.application())
    if active("liveness"):
        liveness.beside(arguments)
    pulse = revival.keep(arguments)

    def install(node: Any, services: Any, arguments: list[str]) -> list[str]:
        if pulse is not None:
            from raylab_patches import redis_password

            revival.install(node.Node, pulse, kept=bool(os.environ.get(redis_password.PASSWORD_FILE)))
            arguments = revival.labels(arguments, pulse.number)
        if folder:
            from forkserver import commands

            commands.install(services, folder)
        return arguments

    return install


def fork_folder() -> str:
    """Folder of the fork server of this node; empty where there is none."""
    return os.environ["RAYLAB_FORK_FOLDER"] if active("forks") and sys.platform == "linux" else ""
