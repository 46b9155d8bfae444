"""Ray's dashboard as a client sees it: answers, refusals, silence, and the list of nodes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
import urllib3

from lab.cluster.api import Node, RayApi, infeasible
from lab.errors import ClusterError, HeadDownError

URL = "http://127.0.0.1:8265"


class FakePool:
    """Answers with what it was given, in turn, and notes what it was asked."""

    def __init__(self, *answers: tuple[int, bytes] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Any, dict[str, str]]] = []

    def request(self, method: str, url: str, *, body: Any, headers: dict[str, str], **_: Any) -> Any:
        self.asked.append((method, url, body, headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(status=answer[0], headers={}, data=answer[1])


def api_with(*answers: tuple[int, bytes] | Exception, token: str = "secret") -> tuple[RayApi, FakePool]:
    pool = FakePool(*answers)
    api = RayApi(URL + "/", token)
    api._pool = cast(urllib3.PoolManager, pool)
    return api, pool


def row(node_id: str, name: str | None = "ray-worker-0", **changes: Any) -> dict[str, Any]:
    return {
        "node_id": node_id,
        "node_name": name,
        "state": "ALIVE",
        "is_head_node": False,
        "resources_total": {"CPU": 8, "node:127.0.0.1": 1.0},
        "start_time_ms": 1000,
        "end_time_ms": 0,
        "state_message": None,
        **changes,
    }


def node_list(*rows: dict[str, Any]) -> tuple[int, bytes]:
    return 200, json.dumps({"data": {"result": {"result": list(rows)}}}).encode()


def node(service: str, *, alive: bool = True, **resources: float) -> Node:
    return Node(service, service, alive, False, resources, 1.0, None, "")


def test_a_request_carries_the_token_and_a_json_body() -> None:
    api, pool = api_with((200, b"{}"))

    api.request("POST", "/api/jobs/", body={"a": 1})

    method, url, body, headers = pool.asked[0]
    assert (method, url, json.loads(body)) == ("POST", f"{URL}/api/jobs/", {"a": 1})
    assert headers == {"Authorization": "Bearer secret", "Content-Type": "application/json"}


def test_bytes_are_sent_as_they_are_and_no_token_means_no_header() -> None:
    api, pool = api_with((200, b""), token="")

    api.request("PUT", "/api/packages/gcs/x.zip", body=b"PK")

    assert pool.asked[0][2:] == (b"PK", {})


def test_silence_is_an_error_that_says_where_and_what_to_look_at() -> None:
    api, _ = api_with(urllib3.exceptions.ReadTimeoutError(None, "/", "timeout=10"))  # type: ignore[arg-type]

    with pytest.raises(ClusterError, match=rf"{URL} .*10 s") as caught:
        api.request("GET", "/api/version")
    assert not isinstance(caught.value, HeadDownError)
    assert "labctl status" in caught.value.hint


def test_a_connection_that_is_hung_up_at_once_is_a_head_that_is_down() -> None:
    api, _ = api_with(urllib3.exceptions.ProtocolError("reset"))

    with pytest.raises(HeadDownError, match=URL) as caught:
        api.request("GET", "/api/version")
    assert "labctl up" in caught.value.hint


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token_is_an_error_even_for_a_bare_request(status: int) -> None:
    api, _ = api_with((status, b"no"))

    with pytest.raises(ClusterError, match=f"token .HTTP {status}"):
        api.request("GET", "/api/version")


def test_other_http_errors_are_returned_by_request_and_raised_by_get() -> None:
    api, _ = api_with((500, b"boom"), (500, b"boom"))

    assert api.request("GET", "/x").status == 500
    with pytest.raises(ClusterError, match="HTTP 500 to /x: boom"):
        api.get("/x")


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"", b"\xff"])
def test_an_answer_that_is_not_json_is_a_cluster_error(body: bytes) -> None:
    api, _ = api_with((200, body))

    with pytest.raises(ClusterError, match="not JSON"):
        api.nodes()


def test_nodes_are_read_oldest_first_with_the_dead_ones() -> None:
    dead = row("b", state="DEAD", start_time_ms=500, end_time_ms=2500, state_message="lost")
    head = row("h", "ray-head", is_head_node=True, start_time_ms=100, resources_total={})
    api, _ = api_with(node_list(row("a"), dead, head))

    nodes = api.nodes()

    assert [n.node_id for n in nodes] == ["h", "b", "a"]
    assert nodes[0] == Node("h", "ray-head", True, True, {}, 0.1, None, "")
    assert nodes[1] == Node("b", "ray-worker-0", False, False, {"CPU": 8.0}, 0.5, 2.5, "lost")


def test_a_node_without_a_name_goes_by_its_id_and_one_without_a_start_comes_first() -> None:
    api, _ = api_with(node_list(row("a"), row("z", None, start_time_ms=None)))

    first = api.nodes()[0]

    assert (first.service, first.started_at) == ("z", None)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"data": None},
        {"data": {"result": {"result": None}}},
        {"data": {"result": {"result": [{"node_id": "a"}]}}},
        {"data": {"result": {"result": ["a"]}}},
        {"data": {"result": {"result": [row("a", resources_total={"CPU": "many"})]}}},
    ],
)
def test_a_node_list_of_unknown_shape_is_a_cluster_error(document: dict[str, Any]) -> None:
    api, _ = api_with((200, json.dumps(document).encode()))

    with pytest.raises(ClusterError, match="unknown shape"):
        api.nodes()


def test_alive_finds_the_newer_of_two_nodes_that_ray_still_calls_alive() -> None:
    nodes = node_list(
        row("old"), row("new", start_time_ms=2000), row("dead", state="DEAD", start_time_ms=3000)
    )
    api, _ = api_with(nodes, nodes)

    node = api.alive("ray-worker-0")

    assert node is not None
    assert node.node_id == "new"
    assert api.alive("ray-worker-1") is None


@pytest.mark.parametrize(
    ("demand", "nodes", "expected"),
    [
        ({"CPU": 4}, [node("a", CPU=8.0)], None),
        ({}, [], None),
        ({"CPU": 0, "GPU": 0}, [node("a")], None),
        ({"GPU": 0.5}, [node("a", CPU=8.0, GPU=1.0)], None),
        ({"GPU": 2}, [node("a", GPU=1.0), node("b", GPU=1.0)], "no node has 2 GPU; the largest has 1"),
        ({"CPU": 4}, [node("a", alive=False, CPU=8.0)], "no node has 4 CPU; the largest has 0"),
        ({"TPU": 1}, [node("a", CPU=8.0)], "no node has 1 TPU; the largest has 0"),
        (
            {"CPU": 8, "GPU": 1},
            [node("a", CPU=8.0), node("b", CPU=2.0, GPU=1.0)],
            "no single node has 8 CPU and 1 GPU; they offer 8 CPU, or 2 CPU and 1 GPU",
        ),
    ],
)
def test_infeasible_says_what_no_node_has(
    demand: dict[str, float], nodes: list[Node], expected: str | None
) -> None:
    assert infeasible(demand, tuple(nodes)) == expected
