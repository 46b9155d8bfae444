"""Processes beside a node: forks of its first process, with which they end.

They belong to the node: whoever kills, freezes or cuts off the node does so to them too.
"""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

KILL_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""

FIRST_SECONDS, LONGEST_SECONDS = 1.0, 30.0
"""Back-off after a step that failed: the first pause, doubled each time, and the longest."""


def start(name: str, niceness: int, be: Callable[[int], None]) -> int:
    """Fork a process that is `be`, which is given its parent's id; returns its own, 0 if there is none."""
    if not hasattr(os, "fork"):
        return 0
    try:
        parent, pid = os.getpid(), os.fork()
    except OSError as error:  # the node is worth more
        say(f"no {name}: {error}")
        return 0
    if pid:
        return pid
    code = 1
    try:
        settle(parent, name, niceness)
        be(parent)
    except BaseException as error:
        say(f"{name} has ended: {error!r}")
    finally:
        os._exit(code)


def say(line: str) -> None:
    """Log a line. Raises nothing: the disk may be full."""
    with contextlib.suppress(Exception):
        print(line, file=sys.stderr, flush=True)


def settle(parent: int, name: str, niceness: int) -> None:
    """Be a process of this name and priority that ends with its parent."""
    import gc
    import signal

    gc.freeze()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    end_with(parent)
    if sys.platform == "linux":
        with contextlib.suppress(OSError), open("/proc/self/comm", "w") as file:
            file.write(name)
    with contextlib.suppress(OSError):
        os.nice(niceness)


def end_with(parent: int) -> None:
    """Be killed when this process's parent ends."""
    import ctypes
    import signal

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(KILL_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def repeat(
    name: str, step: Callable[[], None], goes_on: Callable[[], bool], sleep: Callable[[float], None]
) -> None:
    """Make steps as long as `goes_on` says so: one that raises is logged, and repeated after a back-off."""
    failures = 0
    while goes_on():
        try:
            step()
            failures = 0
        except Exception as error:
            if not failures:
                say(f"a step of {name} failed: {error!r}")
            sleep(min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures, 10)))
            failures += 1
