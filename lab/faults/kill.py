"""`kill`: every process of a node is gone at once, as after a power cut."""

from __future__ import annotations

from lab.faults.base import Fault, FaultKind
from lab.runtime.base import Runtime


class Kill(Fault):
    """SIGKILL to every process of the node. Nothing is flushed, nobody is told."""

    kind = FaultKind(
        name="kill",
        summary="SIGKILL to every process of the node, as after a power cut",
        parameters=("--for TIME: how long the node stays down (default: until training goes on elsewhere)",),
        revert="the node is started again and joins the cluster as a new one",
    )

    def inject(self, runtime: Runtime, service: str) -> None:
        """See Fault.inject."""
        runtime.kill(service)

    def revert(self, runtime: Runtime, service: str) -> None:
        """See Fault.revert."""
        runtime.start(service)
