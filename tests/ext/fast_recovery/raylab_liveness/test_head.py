"""What the head is asked and told: its GCS is played by calls that the test ends."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from raylab_liveness import head as head_module
from raylab_liveness.head import AGAIN_SECONDS, LIST_SECONDS, UNEXPECTED, Head, token_of
from raylab_liveness.judge import Judge
from raylab_liveness.model import Kind, Node, Sign
from raylab_liveness.start import beside, once

pb2 = pytest.importorskip("ray.core.generated.gcs_service_pb2")

ONE = Node(b"1" * 28, "ray-worker-0", "127.0.0.1:2")


class Future:
    """A call that has ended, unless `reply` is None."""

    def __init__(self, reply: Any, code: int = 0) -> None:
        self._reply, self._code = reply, code

    def done(self) -> bool:
        return self._reply is not None

    def code(self) -> Any:
        return type("Code", (), {"value": (self._code, "")})

    def result(self) -> Any:
        return self._reply


class Gcs:
    """A channel to a GCS that lists `rows`; `down`: it refuses."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.down = self.slow = False
        self.asked: list[str] = []
        self.reports: list[Any] = []
        self.metadata: Any = None
        self.made: list[weakref.ref[Future]] = []

    def unary_unary(self, method: str, **codec: Any) -> Any:
        def future(request: Any, timeout: float, metadata: Any) -> Future:
            self.metadata = metadata
            self.asked.append(method.rpartition("/")[2])
            if isinstance(request, pb2.UnregisterNodeRequest):
                self.reports.append(request)
            reply = pb2.GetAllNodeInfoReply()
            for row in self.rows:
                reply.node_info_list.add(**row)
            call = Future(None if self.slow else reply, 14 if self.down else 0)
            self.made.append(weakref.ref(call))
            return call

        return type("Unary", (), {"future": staticmethod(future)})


def row(node: Node, **changes: Any) -> dict[str, Any]:
    host, _, port = node.address.partition(":")
    made = {
        "node_id": node.node_id,
        "node_name": node.name,
        "node_manager_address": host,
        "node_manager_port": int(port),
        "is_head_node": node.head,
    }
    return {**made, **changes}


@pytest.fixture
def gcs(monkeypatch: pytest.MonkeyPatch) -> Gcs:
    made = Gcs()
    monkeypatch.setattr(head_module, "connect", lambda address: made)
    return made


def test_the_nodes_are_those_that_the_head_believes_to_be_alive(gcs: Gcs) -> None:
    head = Head("127.0.0.1:6379", "secret")
    gcs.rows = [row(ONE), row(Node(b"2" * 28, "dead", "127.0.0.1:3"), state=1)]
    assert not head.refresh(0.0)
    assert head.refresh(0.1)
    assert head.nodes == (ONE,)
    assert gcs.metadata == (("authorization", "Bearer secret"),)


def test_a_head_that_is_slow_or_away_is_not_waited_for_and_its_last_list_stays(gcs: Gcs) -> None:
    head = Head("127.0.0.1:6379", "")
    gcs.rows = [row(ONE)]
    head.refresh(0.0)
    head.refresh(0.1)
    gcs.slow = True
    for tenth in range(2, 60):
        head.refresh(tenth / 10)
    assert (head.nodes, len(gcs.asked)) == ((ONE,), 2)


def test_a_list_that_failed_is_asked_for_again(gcs: Gcs) -> None:
    head = Head("127.0.0.1:6379", "")
    gcs.rows, gcs.down = [row(ONE)], True
    head.refresh(0.0)
    head.refresh(0.1)
    gcs.down = False
    head.refresh(0.1 + LIST_SECONDS)
    head.refresh(0.2 + LIST_SECONDS)
    assert head.nodes == (ONE,)


def test_a_death_is_told_with_its_reason_and_again_while_the_node_is_still_listed(gcs: Gcs) -> None:
    head = Head("127.0.0.1:6379", "")
    assert head.declare_dead(ONE, "nobody listens there", 10.0)
    assert not head.declare_dead(ONE, "nobody listens there", 10.1)
    assert head.declare_dead(ONE, "nobody listens there", 10.1 + AGAIN_SECONDS)
    death = gcs.reports[0]
    assert (death.node_id, death.node_death_info.reason_message) == (ONE.node_id, "nobody listens there")
    assert death.node_death_info.reason == UNEXPECTED
    names = type(death.node_death_info).Reason.DESCRIPTOR.values_by_number
    assert names[UNEXPECTED].name == "UNEXPECTED_TERMINATION"


def test_a_call_is_held_until_it_has_ended(gcs: Gcs) -> None:
    head = Head("127.0.0.1:6379", "")
    head.declare_dead(ONE, "nobody listens there", 10.0)
    gc.collect()
    assert gcs.made[-1]() is not None, "gRPC cancels a call that is garbage"


class Knows:
    """A witness that says what the test says."""

    name = "knows"

    def __init__(self) -> None:
        self.signs: list[Sign] = []

    def look(self, nodes: Any, now: float) -> list[Sign]:
        return self.signs


def test_one_look_tells_the_head_once_of_a_node_that_a_witness_knows_to_be_gone(gcs: Gcs) -> None:
    head, judge, witness = Head("127.0.0.1:6379", ""), Judge(0.0), Knows()
    lines: list[str] = []
    gcs.rows = [row(ONE)]
    for tenth in range(3):
        once(head, judge, [witness], tenth / 10, lines.append)
    witness.signs = [Sign("knows", ONE.node_id, Kind.GONE, why="nobody listens there")]
    once(head, judge, [witness], 0.3, lines.append)
    once(head, judge, [witness], 0.4, lines.append)
    assert len(gcs.reports) == 1
    assert lines == [f"ray-worker-0 ({ONE.node_id.hex()[:8]}) is dead: nobody listens there"]


def test_only_the_head_has_a_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fork", lambda: pytest.fail("forked"))
    assert beside(["start", "--address=127.0.0.1:6379"], {"RAY_ADDRESS": "127.0.0.1:6379"}) == 0
    assert beside(["start", "--head"], {}) == 0
    monkeypatch.setattr("os.fork", lambda: 77)
    assert beside(["start", "--head"], {"RAY_ADDRESS": "127.0.0.1:6379"}) == 77


def test_the_token_is_that_of_the_file(tmp_path: Any) -> None:
    (tmp_path / "token").write_text("secret\n")
    assert token_of({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}) == "secret"
    assert token_of({}) == ""
