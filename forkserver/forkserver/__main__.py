"""`ray start`, with the node's Python processes forked from a server beside it.

python -m forkserver -- ray start --head ...
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence

from forkserver import commands, server
from forkserver.application import Application

USAGE = "usage: python -m forkserver -- ray start OPTION..."

SETTINGS = {"GRPC_ENABLE_FORK_SUPPORT": "0"}
"""Environment of a node, where it has no other: gRPC's own handling of forks now and then loses a process."""


def command_of(arguments: Sequence[str]) -> list[str]:
    """The words of `ray start ...`; none where these arguments are another command."""
    words = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    return words if words[:2] == ["ray", "start"] else []


def main(arguments: Sequence[str]) -> None:
    command = command_of(arguments)
    if not command:
        print(USAGE, file=sys.stderr)
        raise SystemExit(2)
    folder = ""
    if sys.platform == "linux":
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        folder = tempfile.mkdtemp(prefix="forkserver-")
        server.start_beside(folder, Application(lasts=False))

    from ray._private import services
    from ray.scripts import scripts

    if folder:
        commands.install(services, folder)
    sys.argv = command
    scripts.main()


if __name__ == "__main__":
    main(sys.argv[1:])
