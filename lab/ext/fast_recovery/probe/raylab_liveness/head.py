"""Ray's head, as the judge knows it: the nodes that it believes to be alive, and how it hears of a death.

Both are calls of its GCS (ray 2.60): GetAllNodeInfo, and UnregisterNode, with which a node that shuts down
takes its leave. They are never waited for: a head that is slow must not make the judge late.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from raylab_liveness.model import Node
from raylab_liveness.raylets import connect

LIST_SECONDS = 0.5
"""Time from a list of the nodes to the next question for one."""

CALL_SECONDS = 5.0
"""Deadline of a call; one that is late is asked again."""

AGAIN_SECONDS = 1.0
"""Time after which the head is told again of a dead node that it still lists."""

UNEXPECTED = 2
"""NodeDeathInfo.UNEXPECTED_TERMINATION."""

SERVICE = "/ray.rpc.NodeInfoGcsService/"


class Head:
    """The GCS at an address, asked in the name of Ray's token."""

    def __init__(self, address: str, token: str) -> None:
        from ray.core.generated import gcs_service_pb2

        self._messages: Any = gcs_service_pb2
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._channel = connect(address)
        self._listing: Any = None
        self._next = 0.0
        self._notified: dict[bytes, tuple[float, Any]] = {}
        """Node -> when it was told of, and the call: gRPC ends one that nobody holds."""
        self.nodes: tuple[Node, ...] = ()
        """As of the last answer."""

    def refresh(self, now: float) -> bool:
        """Take up a list that has come, and ask for the next one; true if there are other nodes now."""
        before, listing = self.nodes, self._listing
        if listing is not None and listing.done():
            self._listing, self._next = None, now + LIST_SECONDS
            if listing.code().value[0] == 0:
                self.nodes = living(listing.result())
        if self._listing is None and now >= self._next:
            self._listing = self._call("GetAllNodeInfo", self._messages.GetAllNodeInfoRequest())
        return self.nodes != before

    def declare_dead(self, node: Node, why: str, now: float) -> bool:
        """Tell the head that a node is dead; false if it was told a moment ago."""
        notified = self._notified.get(node.node_id)
        if notified is not None and now - notified[0] < AGAIN_SECONDS:
            return False
        request = self._messages.UnregisterNodeRequest(node_id=node.node_id)
        request.node_death_info.reason, request.node_death_info.reason_message = UNEXPECTED, why
        self._notified[node.node_id] = (now, self._call("UnregisterNode", request))
        self._next = 0.0
        return True

    def _call(self, method: str, request: Any) -> Any:
        reply = getattr(self._messages, type(request).__name__.replace("Request", "Reply"))
        call = self._channel.unary_unary(
            SERVICE + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        return call.future(request, timeout=CALL_SECONDS, metadata=self._metadata)


def living(reply: Any) -> tuple[Node, ...]:
    """The nodes of a list that are alive."""
    return tuple(
        Node(
            row.node_id,
            row.node_name,
            f"{row.node_manager_address}:{row.node_manager_port}",
            row.is_head_node,
        )
        for row in reply.node_info_list
        if row.state == type(row).ALIVE
    )


def token_of(environ: Mapping[str, str] = os.environ) -> str:
    """Ray's token; empty where no file is named. Raises OSError."""
    path = environ.get("RAY_AUTH_TOKEN_PATH", "")
    if not path:
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read().strip()
