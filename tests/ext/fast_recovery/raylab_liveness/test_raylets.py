"""The witness that asks raylets: over connections that the test answers, breaks and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raylab_liveness.model import Kind, Node, Sign
from raylab_liveness.raylets import ASK_SECONDS, CHECK, STREAM, Raylets

NODE = Node(b"1", "ray-worker-0", "127.0.0.1:4321")
BROKEN = "Stream removed (Socket closed)"
REFUSED = "failed to connect to all addresses; last error: connect: Connection refused (111)"


class Call:
    """A call on its way: its end is told to who asked for that."""

    def __init__(self, method: str) -> None:
        self.method, self.why = method, ""
        self._callbacks: list[Callable[[Any], None]] = []

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def code(self) -> Any:
        return type("Code", (), {"value": (14 if self.why else 0, "")})

    def details(self) -> str:
        return self.why

    def end(self, why: str = "") -> None:
        self.why = why
        for callback in self._callbacks:
            callback(self)


class Channel:
    """A connection, with the calls that were made over it."""

    def __init__(self, address: str) -> None:
        self.address, self.closed = address, False
        self.calls: list[Call] = []

    def unary_stream(self, method: str) -> Callable[[bytes], Call]:
        return lambda request: self._call(method)

    def unary_unary(self, method: str) -> Any:
        return type("Unary", (), {"future": staticmethod(lambda request: self._call(method))})

    def close(self) -> None:
        self.closed = True
        for call in self.calls:
            call.end("Channel closed!")

    def last(self, method: str) -> Call:
        return [call for call in self.calls if call.method == method][-1]

    def _call(self, method: str) -> Call:
        self.calls.append(Call(method))
        return self.calls[-1]


class WatchedNode:
    """A witness of one node, its connections, and the time."""

    def __init__(self) -> None:
        self.now, self.woken = 100.0, 0
        self.channels: list[Channel] = []
        self.witness = Raylets(self._wake, self._connect, lambda: self.now)

    def look(self, *nodes: Node) -> list[Sign]:
        return list(self.witness.look(nodes or (NODE,), self.now))

    @property
    def channel(self) -> Channel:
        return self.channels[-1]

    def _connect(self, address: str) -> Channel:
        self.channels.append(Channel(address))
        return self.channels[-1]

    def _wake(self) -> None:
        self.woken += 1


@pytest.fixture
def node() -> WatchedNode:
    made = WatchedNode()
    made.look()
    return made


def test_a_node_is_asked_over_one_connection_that_stays(node: WatchedNode) -> None:
    for _ in range(10):
        node.channel.last(CHECK).end()
        node.now += ASK_SECONDS
        node.look()
    assert [channel.address for channel in node.channels] == [NODE.address]
    assert [call.method for call in node.channel.calls] == [STREAM, *[CHECK] * 11]


def test_an_answer_tells_how_long_it_took(node: WatchedNode) -> None:
    node.now += 0.75
    node.channel.last(CHECK).end()
    assert node.look() == [Sign("raylets", NODE.node_id, Kind.ANSWERED, 0.75)]


def test_a_question_that_waits_for_its_answer_is_a_silence(node: WatchedNode) -> None:
    node.now += 1.5
    assert node.look() == [Sign("raylets", NODE.node_id, Kind.SILENT, 1.5)]
    assert len(node.channel.calls) == 2, "it is not asked again meanwhile"


def test_the_end_of_a_raylet_wakes_the_judge_and_is_certain_once_nobody_listens(node: WatchedNode) -> None:
    node.channel.last(CHECK).end()
    node.channel.last(STREAM).end(BROKEN)
    assert node.woken == 1
    node.look()
    assert (len(node.channels), node.channels[0].closed) == (2, True)
    node.channel.last(STREAM).end(REFUSED)
    assert node.woken == 2
    (sign,) = (sign for sign in node.look() if sign.kind is Kind.GONE)
    assert "nobody listens at 127.0.0.1:4321" in sign.why


def test_a_broken_connection_that_nobody_answers_is_cut_until_somebody_does(node: WatchedNode) -> None:
    node.channel.last(CHECK).end()
    node.channel.last(STREAM).end(BROKEN)
    node.look()
    node.now += 0.2
    (sign,) = node.look()
    assert (sign.kind, round(sign.seconds, 3)) == (Kind.CUT, 0.2)
    node.channel.last(CHECK).end()
    assert [sign.kind for sign in node.look()] == [Kind.ANSWERED]
    node.now += ASK_SECONDS
    node.look()
    node.now += 1.0
    assert [sign.kind for sign in node.look()] == [Kind.SILENT]


def test_what_a_connection_says_after_it_was_given_up_is_not_heard(node: WatchedNode) -> None:
    old = node.channel
    old.last(STREAM).end(BROKEN)
    node.look()
    old.last(CHECK).end(REFUSED)
    assert all(sign.kind is not Kind.GONE for sign in node.look())


def test_a_node_that_is_no_more_is_hung_up_on(node: WatchedNode) -> None:
    assert node.look(Node(b"2", "ray-worker-1", "127.0.0.1:5")) == []
    assert [channel.closed for channel in node.channels] == [True, False]
