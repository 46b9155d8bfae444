"""Size of Ray's nodes: the number of CPUs that Ray may give out there, set through its GCS while it runs.

Ray (2.60) has one call for it, with which KubeRay resizes pods. GPUs cannot be resized, so a node is closed
by taking all its CPUs: no rank, actor or task that asks for one is placed there any more. What runs goes on,
and what it frees can be taken again until the next call. Draining cannot be undone in Ray, and this can.

The message is two fields, so it is written here: the classes for it come only with all of Ray.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from lab.errors import ClusterError

METHOD = "/ray.rpc.autoscaler.AutoscalerStateService/ResizeRayletResourceInstances"
TIMEOUT_SECONDS = 5.0
NODE_ID, RESOURCES, KEY, VALUE = 1, 2, 1, 2
"""Numbers of the fields of the request, and of an entry of its map."""
BYTES, DOUBLE = 2, 1
"""Wire types of protobuf."""


class NodeSizes:
    """Ray's GCS at an address, `HOST:PORT`, asked in the name of Ray's token."""

    def __init__(self, address: str, token: str) -> None:
        """Without an address every call is refused."""
        self._address, self._token = address, token
        self._call: Callable[..., object] | None = None

    def set_cpus(self, node_id: str, cpus: float) -> None:
        """Let Ray give out so many CPUs of a node, or as many as are in use. Raises ClusterError."""
        if not self._address:
            raise ClusterError("the address of Ray's GCS is not known", "RAYLAB_GCS_ADDRESS says it")
        import grpc

        if self._call is None:
            channel = grpc.insecure_channel(self._address, options=[("grpc.enable_http_proxy", 0)])
            self._call = channel.unary_unary(METHOD)
        try:
            self._call(
                request(node_id, cpus),
                timeout=TIMEOUT_SECONDS,
                metadata=(("authorization", f"Bearer {self._token}"),) if self._token else (),
            )
        except grpc.RpcError as error:
            detail = error.details() if isinstance(error, grpc.Call) else repr(error)
            raise ClusterError(f"Ray does not resize node {node_id[:8]}: {detail}") from error


def request(node_id: str, cpus: float) -> bytes:
    """A ResizeRayletResourceInstancesRequest: the node, and the map of resources with CPU alone."""
    entry = _field(KEY, b"CPU") + bytes([VALUE << 3 | DOUBLE]) + struct.pack("<d", cpus)
    return _field(NODE_ID, bytes.fromhex(node_id)) + _field(RESOURCES, entry)


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes; all of them are shorter than 128."""
    return bytes([number << 3 | BYTES, len(data)]) + data
