"""What Ray says of a node that an invasive check wants."""

from __future__ import annotations

from lab.cluster.allocation import holdings, read
from lab.cluster.api import RayApi
from lab.daemons.health.monitor import Free


def free_nodes(api: RayApi) -> Free:
    """A function that tells if no job holds anything on a node. It raises ClusterError."""

    def free(node: str) -> bool:
        return not any(holding.service == node for holding in holdings(read(api)))

    return free
