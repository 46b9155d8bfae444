"""Rules for starting services that every runtime keeps: what is broken, what is tried again, what stays."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Sequence

from lab.errors import WaitTimeoutError
from lab.host.clock import Clock, settle
from lab.host.quantities import plural
from lab.runtime.base import OnProgress
from lab.runtime.logtail import listing
from lab.services import HEAD, NEEDED, is_node
from lab.topology import Progress, ServiceStatus, State

ANSWER_SECONDS = 30.0
"""Time for Ray to list its nodes, and for any other service to answer: on a busy machine they may be silent
for a while."""

TRIES = 3
"""Attempts to start a node until labctl gives up, too."""

OVERLOADED = 4.0
"""Processes that want to run, for each core, with which a start takes minutes."""

log = logging.getLogger("lab.runtime")

_GAVE_UP = ("The current node timed out during startup", "while waiting for node to startup")
"""Ray 2.60, node.py and services.py."""


def late(service: str, seconds: float, detail: str, lines: Sequence[str], load: float | None = None) -> str:
    """The message about a service that was not healthy in time, with the last lines of its log.

    `load` is the machine's, as the kernel counts the processes that want to run.
    """
    wanted, cores = os.getloadavg()[0] if load is None else load, os.cpu_count() or 1
    busy = (
        f"; the machine is overloaded, {wanted:.0f} processes want its {plural(cores, 'core')} (try later)"
        if wanted > OVERLOADED * cores
        else ""
    )
    return f"{service} is not healthy after {seconds:g} s: {detail}{busy}. {listing(lines)}"


def settled(service: str, look: Callable[[], tuple[ServiceStatus, str]], clock: Clock) -> ServiceStatus:
    """The status of a service, once Ray has said which nodes are alive or the service needs no such word.

    `look` gives the status, and why Ray's nodes cannot be had, if so. A head that stays silent is taken for
    what it seems to be. Raises WaitTimeoutError for a worker that runs, while nobody knows whether it is in
    the cluster.
    """

    def known(answer: tuple[ServiceStatus, str]) -> bool:
        return not answer[1] or not is_node(service) or answer[0].state is not State.RUNNING

    answer = settle(look, known, timeout=ANSWER_SECONDS, clock=clock)
    if known(answer) or service == HEAD:
        return answer[0]
    raise WaitTimeoutError(
        f"{service} was left alone: whether its node lives is not known after {ANSWER_SECONDS:g} s: "
        f"{answer[1]}",
        f"`labctl status`; `labctl restart {service}` restarts it, whatever it is doing",
    )


def all_settled(
    look: Callable[[], tuple[Sequence[ServiceStatus], str]], on_progress: OnProgress, clock: Clock
) -> tuple[ServiceStatus, ...]:
    """The status of a lab's services, once each that runs has answered, or was given the time to.

    A service that runs may have users: it is only taken for broken when it has stayed silent. `look` gives
    the statuses, and why Ray's nodes cannot be had, if so.
    """
    begin = clock()
    reported: set[str] = set()

    def known(answer: tuple[Sequence[ServiceStatus], str]) -> bool:
        silent = _silent(*answer)
        for status in silent if clock() - begin < ANSWER_SECONDS else ():
            if status.service not in reported:
                reported.add(status.service)
                detail = f"runs, and gets {ANSWER_SECONDS:g} s to answer: {status.detail}"
                on_progress(Progress(status.service, State.RUNNING, detail, clock() - begin))
        return not silent

    answer = settle(look, known, timeout=ANSWER_SECONDS, clock=clock)
    return tuple(answer[0])


def _silent(statuses: Sequence[ServiceStatus], why: str) -> list[ServiceStatus]:
    """Services that run and may serve or not. A node is asked through its head."""
    running = [status for status in statuses if status.state is State.RUNNING]
    asked = bool(why) and any(status.service == HEAD for status in running)
    return [status for status in running if asked or not is_node(status.service)]


def ray_gave_up(lines: Sequence[str]) -> bool:
    """True when `ray start` ended because its raylet had not joined in time.

    It waits RAY_raylet_start_wait_time_s (see lab.cluster.ray_settings), on a busy machine as well: there a
    retry is worth it.
    """
    return any(words in line for line in lines for words in _GAVE_UP)


def again(service: str, number: int) -> str:
    """The message for a node that is started for the `number`th time. It goes to labctl's log, too."""
    said = f"started again: the machine was too busy (try {number} of {TRIES})"
    log.info("%s: %s", service, said)
    return said


def staying(started: Collection[str], ran: Collection[str], healthy: Collection[str]) -> set[str]:
    """The services that a repair has `started` and leaves as they are when it fails.

    The lab was up, and its jobs go on. `ran` are all that ran before it began: any of them that was started
    afresh stays. So does a service that has become `healthy`, since jobs may use it by now, and whatever the
    running nodes need.
    """
    kept = {*ran, *healthy}
    if any(map(is_node, kept)):
        kept.update(NEEDED)
    return kept & set(started)
