"""Starts the judge as a fork of the head's first process, with which it ends."""

from __future__ import annotations

import os
import time

from raylab_node import companion

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

    from raylab_liveness.head import Head
    from raylab_liveness.judge import Judge
    from raylab_liveness.model import Witness

NAME = "raylab-judge"
ADDRESS = "RAY_ADDRESS"
"""Variable of the head's own address, HOST:PORT."""

PAUSE_SECONDS = 2.0
"""Time in which the head starts alone."""


def beside(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Start the judge of the head that `ray start` with these arguments makes; its id, 0 for any other node.

    Without one Ray's own check stays.
    """
    if "--head" not in arguments or not environ.get(ADDRESS):
        return 0
    return companion.start(NAME, 0, lambda parent: serve(environ, parent))


def serve(environ: Mapping[str, str], parent: int) -> NoReturn:
    """Be the judge, once the head has had time to start, until the parent has ended."""
    import threading

    time.sleep(PAUSE_SECONDS)

    from raylab_liveness.head import Head, token_of
    from raylab_liveness.judge import STEP_SECONDS, Judge
    from raylab_liveness.kernel import Kernel
    from raylab_liveness.raylets import Raylets

    wake = threading.Event()
    head, judge = Head(environ[ADDRESS], token_of(environ)), Judge(time.monotonic())
    witnesses: list[Witness] = [Raylets(wake.set), Kernel()]

    def step() -> None:
        once(head, judge, witnesses, time.monotonic(), say)
        wake.wait(STEP_SECONDS)
        wake.clear()

    companion.repeat(NAME, step, lambda: os.getppid() == parent, time.sleep)
    os._exit(0)


def once(
    head: Head, judge: Judge, witnesses: Sequence[Witness], now: float, say: Callable[[str], None]
) -> None:
    """Look once, and tell the head who is dead."""
    if head.refresh(now):
        judge.know(head.nodes)
    for witness in witnesses:
        for sign in witness.look(head.nodes, now):
            judge.hear(sign)
    for death in judge.step(now):
        if head.declare_dead(death.node, death.why, now):
            say(f"{death.node.name} ({death.node.node_id.hex()[:8]}) is dead: {death.why}")


def say(text: str) -> None:
    """Write one line to the head's log."""
    companion.say(f"{time.strftime('%H:%M:%S')} {NAME}: {text}")
