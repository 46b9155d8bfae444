"""The witness that asks every node's raylet over gRPC, as Ray's head does: whether it serves.

A raylet answers from threads of its own (gRPC's health service), whatever its main thread does. A stream to
it that stays open breaks the moment its process ends; a question each `ASK_SECONDS` shows that it still runs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from raylab_liveness.model import Kind, Node, Sign

NAME = "raylets"
ASK_SECONDS = 0.25
"""Time from an answer to the next question."""

CHECK, STREAM = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"

REFUSED = "Connection refused"
"""Of the words of an error: nobody listens there, says the kernel."""

OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # one that broke must not make the next one wait
    ("grpc.max_reconnect_backoff_ms", 1000),
)
"""Options of a channel to a process of this machine."""


def connect(address: str) -> Any:
    """A gRPC channel to an address; it connects when it is used."""
    import grpc

    return grpc.insecure_channel(address, options=OPTIONS)


class Line:
    """The connection to one node. What gRPC's threads find is handed over by `signs`."""

    def __init__(self, node: Node, raylets: Raylets) -> None:
        self._node, self._raylets = node, raylets
        self._lock = threading.Lock()
        self._news: list[Sign] = []
        self._asked: float | None = None
        """When the question was asked that waits for its answer."""
        self._next = 0.0
        self._cut = False
        self._channel: Any = None

    def signs(self, now: float) -> list[Sign]:
        """What has become known since the last time, and for how long a question has waited."""
        with self._lock:
            news, self._news = self._news, []
            asked, cut = self._asked, self._cut
            due = asked is None and now >= self._next
            if due:
                self._asked = now
        if due:
            self._ask(now, again=cut or self._channel is None)
        elif asked is not None:
            kind = Kind.CUT if cut else Kind.SILENT
            news.append(Sign(NAME, self._node.node_id, kind, max(0.0, now - asked)))
        return news

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            with contextlib.suppress(Exception):  # whatever gRPC makes of a connection that broke
                channel.close()

    def _ask(self, now: float, *, again: bool) -> None:
        """Ask, over a new connection where there is none, or none that holds."""
        if again:
            self.close()
            self._channel = self._raylets.connect(self._node.address)
            stream = self._channel.unary_stream(STREAM)(b"")
            stream.add_done_callback(self._hearer(self._channel, now))
        question = self._channel.unary_unary(CHECK).future(b"")
        question.add_done_callback(self._hearer(self._channel, now))

    def _hearer(self, channel: Any, asked: float) -> Callable[[Any], None]:
        """A callback for the end of a call, in a thread of gRPC's."""

        def ended(call: Any) -> None:
            if channel is not self._channel:
                return
            now, name = self._raylets.clock(), self._node.node_id
            with self._lock:
                if call.code().value[0] == 0:
                    self._news.append(Sign(NAME, name, Kind.ANSWERED, max(0.0, now - asked)))
                    self._asked, self._cut, self._next = None, False, now + ASK_SECONDS
                    return
                self._asked, self._cut, self._next = None, True, 0.0
                if REFUSED in str(call.details()):
                    why = f"its raylet has ended: nobody listens at {self._node.address} any more"
                    self._news.append(Sign(NAME, name, Kind.GONE, why=why))
            self._raylets.wake()

        return ended


class Raylets:
    """Witness that asks the raylets of silent nodes, and looks at their ports."""

    name = NAME

    def __init__(
        self,
        wake: Callable[[], None],
        connect: Callable[[str], Any] = connect,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wake` is called from gRPC's threads when a connection has broken."""
        self.wake, self.connect, self.clock = wake, connect, clock
        self._lines: dict[bytes, Line] = {}

    def look(self, nodes: Sequence[Node], now: float) -> Iterable[Sign]:
        wanted = {node.node_id: node for node in nodes}
        for gone in self._lines.keys() - wanted.keys():
            self._lines.pop(gone).close()
        for node_id in wanted.keys() - self._lines.keys():
            self._lines[node_id] = Line(wanted[node_id], self)
        return [sign for line in self._lines.values() for sign in line.signs(now)]
