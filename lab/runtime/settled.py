"""What a service does, known for sure before anything of it is killed."""

from __future__ import annotations

from collections.abc import Callable

from lab.errors import WaitTimeoutError
from lab.topology import HEAD, ServiceStatus, State, is_node

ANSWER_SECONDS = 30.0
"""How long Ray gets to say which nodes are alive: on a busy machine it may be silent for a while."""

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
