"""What services do, known for sure before anything of them is killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lab.errors import WaitTimeoutError
from lab.runtime.base import OnProgress
from lab.topology import HEAD, Progress, ServiceStatus, State, is_node

ANSWER_SECONDS = 30.0
"""How long Ray gets to say which nodes are alive, and any other service to answer: on a busy machine they
may be silent for a while."""

POLL_SECONDS = 1.0


def settled(
    service: str,
    look: Callable[[], tuple[ServiceStatus, str]],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> ServiceStatus:
    """The status of a service, once Ray has said which nodes are alive or the service needs no such word.

    `look` gives the status, and why Ray's nodes cannot be had, if so. A head that stays silent is taken for
    what it seems to be. Raises WaitTimeoutError for a worker that runs, while nobody knows whether it is in
    the cluster.
    """
    deadline = clock() + ANSWER_SECONDS
    while True:
        status, why = look()
        if not why or not is_node(service) or status.state is not State.RUNNING:
            return status
        if clock() >= deadline:
            break
        sleep(POLL_SECONDS)
    if service == HEAD:
        return status
    raise WaitTimeoutError(
        f"{service} was left alone: whether its node lives is not known after {ANSWER_SECONDS:g} s: {why}",
        f"`labctl status`; `labctl restart {service}` starts it anew whatever it does",
    )


def all_settled(
    look: Callable[[], tuple[Sequence[ServiceStatus], str]],
    on_progress: OnProgress,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> tuple[ServiceStatus, ...]:
    """The status of a lab's services, once each that runs has answered, or was given the time to.

    What runs may have users: it is only taken for broken when it has stayed silent. `look` gives the
    statuses, and why Ray's nodes cannot be had, if so.
    """
    begin = clock()
    told: set[str] = set()
    while True:
        found, why = look()
        silent = _silent(found, why)
        if not silent or clock() - begin >= ANSWER_SECONDS:
            return tuple(found)
        for status in silent:
            if status.service not in told:
                told.add(status.service)
                detail = f"runs, and gets {ANSWER_SECONDS:g} s to answer: {status.detail}"
                on_progress(Progress(status.service, State.RUNNING, detail, clock() - begin))
        sleep(POLL_SECONDS)


def _silent(found: Sequence[ServiceStatus], why: str) -> list[ServiceStatus]:
    """Those that run and of which nobody knows whether they serve. A node is asked through its head."""
    running = [status for status in found if status.state is State.RUNNING]
    asked = bool(why) and any(status.service == HEAD for status in running)
    return [status for status in running if asked or not is_node(status.service)]
