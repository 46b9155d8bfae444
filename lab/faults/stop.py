"""`stop`: a node is shut down in order, as by `docker stop` or before maintenance."""

from __future__ import annotations

from lab.faults.base import Fault, FaultKind
from lab.runtime.base import Runtime

GRACE_SECONDS = 10.0
"""What is left after this is killed; `docker stop` waits as long."""


class Stop(Fault):
    """SIGTERM to the node, which leaves the cluster in order and takes its workers along."""

    kind = FaultKind(
        name="stop",
        summary="the node shuts down in order (SIGTERM), as before maintenance",
        parameters=("--for TIME: how long the node stays down (default: until training goes on elsewhere)",),
        revert="the node is started again and joins the cluster as a new one",
    )

    def inject(self, runtime: Runtime, service: str) -> None:
        """See Fault.inject."""
        runtime.stop(service, timeout=GRACE_SECONDS)

    def revert(self, runtime: Runtime, service: str) -> None:
        """See Fault.revert."""
        runtime.start(service)
