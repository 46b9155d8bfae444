"""The fork server of a local lab (raylab_forks): one for all its nodes, started first and ended last.

It is no service: nobody uses it from outside, and without it the lab only starts its processes more slowly.
"""

from __future__ import annotations

from collections.abc import Callable

from lab.runtime.local import processes, temporary
from lab.runtime.local.processes import Identity
from lab.runtime.local.services import FORKS, Layout
from lab.runtime.local.state import LabState

READY_SECONDS = 30.0
"""How long after the start of a lab its nodes wait, all together, for the server to have Ray imported;
measured on 2 idle cores: 4 s."""

POLL_SECONDS = 0.05


def runs(current: LabState) -> bool:
    """Whether the server of this state runs."""
    identity = current.leaders.get(FORKS)
    return identity is not None and processes.find(identity) is not None


def wait_until_ready(
    layout: Layout,
    identity: Identity,
    deadline: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> bool:
    """Wait until the server forks processes of nodes; whether it does, before it ends and in time."""
    listens = layout.forks / "node.sock"
    while not listens.exists():
        if processes.find(identity) is None or clock() >= deadline:
            return False
        sleep(POLL_SECONDS)
    return True


def end(layout: Layout) -> None:
    """End the server of this lab, and all its forks."""
    processes.kill_all(lambda: processes.forks_of(layout.folder))
    temporary.remove(layout.forks)
