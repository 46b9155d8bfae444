"""The fork server of a local lab (raylab_forks): one for all its nodes, started first and ended last.

It is no service: nobody uses it from outside, and without it the lab only starts its processes more slowly.
"""

from __future__ import annotations

from lab.host.clock import Clock, settle
from lab.runtime.local import processes, temporary
from lab.runtime.local.layout import Layout
from lab.runtime.local.processes import Identity
from lab.runtime.local.services import FORKS
from lab.runtime.local.state import LabState

READY_SECONDS = 30.0
"""Time from the start of a lab for which its nodes wait, all together, until the server has Ray imported.
Measured on 2 idle cores: 4 s."""

POLL_SECONDS = 0.05


def runs(current: LabState) -> bool:
    """True when the server of this state runs."""
    identity = current.leaders.get(FORKS)
    return identity is not None and processes.find(identity) is not None


def clear(layout: Layout, current: LabState) -> None:
    """End what a server that is gone has left behind."""
    if not runs(current):
        processes.kill_all(lambda: processes.orphans_of(layout.folder))


def wait_until_ready(layout: Layout, identity: Identity, timeout: float, clock: Clock) -> bool:
    """Wait until the server forks processes of nodes; whether it does, before it ends and in time."""
    listens = layout.forks / "node.sock"
    over = settle(
        lambda: (listens.exists(), processes.find(identity) is None),
        any,
        timeout=timeout,
        clock=clock,
        every=POLL_SECONDS,
    )
    return over[0]


def end(layout: Layout) -> None:
    """End the server of this lab, and all its forks."""
    processes.kill_all(lambda: processes.forks_of(layout.folder))
    temporary.remove(layout.forks)
