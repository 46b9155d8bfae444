"""The hub in a container of its own: `python -m lab.daemons.hub`.

A hub that is killed is started again here: with its container people's servers would end, too.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.daemons.hub.settings import from_environment
from lab.host import command
from lab.host.serving import log
from lab.runtime.local import processes

CONFIGURATION = Path(__file__).with_name("jupyterhub_config.py")

PAUSE_SECONDS = 1.0


def main() -> int:
    """Run the hub until it ends by itself; returns its exit code. Raises UsageError."""
    mark = from_environment(os.environ).mark
    argv = (sys.executable, "-m", "jupyterhub", "--config", str(CONFIGURATION))

    def run() -> int:
        return command.start(argv, env={**os.environ, processes.MARK: mark}).wait()

    def clear() -> None:  # its proxy, and what looks for idle servers
        processes.end(None, mark, grace=0)
        time.sleep(PAUSE_SECONDS)

    return keep(run, clear)


def keep(run: Callable[[], int], clear: Callable[[], None]) -> int:
    """Run something until it ends by itself, and clear up after each time that it was killed."""
    while (code := run()) < 0:
        log(f"the hub was ended by {signal.Signals(-code).name}; it is started again")
        clear()
    return code


if __name__ == "__main__":
    sys.exit(main())
