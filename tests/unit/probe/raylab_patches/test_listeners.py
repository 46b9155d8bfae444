"""What a training listens on stays on the loopback address. Sockets are real, some libraries stand-ins."""

from __future__ import annotations

import os
import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from lab.host.listening import listening
from raylab_patches import listeners
from raylab_patches.ray_start import LOOPBACK as ONE_HOST
from raylab_switches import OFF

OUTSIDE = "203.0.113.7"
"""No address of this machine: RFC 5737."""


@pytest.fixture(autouse=True)
def one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ONE_HOST.items():
        monkeypatch.setenv(name, value)


def addresses(port: int) -> set[str]:
    return {listener.address for listener in listening() if listener.port == port}


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("localhost", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("127.0.1.1", "127.0.0.1"),
        (OUTSIDE, OUTSIDE),
        ("no.such.host.invalid", "no.such.host.invalid"),
    ],
)
def test_this_machine_is_the_loopback_address_and_others_stay(host: str, meant: str) -> None:
    assert listeners.here(host) == meant


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("http://localhost:29510", "http://127.0.0.1:29510"),
        ("http://localhost:29510/checkpoint/", "http://127.0.0.1:29510/checkpoint/"),
        ("localhost:1", "127.0.0.1:1"),
        ("http://[::1]:1", "http://127.0.0.1:1"),
        (f"http://{OUTSIDE}:1", f"http://{OUTSIDE}:1"),
        ("nothing", "nothing"),
    ],
)
def test_the_host_in_an_address_is_too(address: str, meant: str) -> None:
    assert listeners.here_in(address) == meant


class Store:
    """In place of torch's TCPStore: what it was told."""

    def __init__(self, host_name: str, *args: Any, **given: Any) -> None:
        self.given: dict[str, Any] = {"host_name": host_name, "args": args, **given}


def store(*args: Any, **given: Any) -> dict[str, Any]:
    kind = type("Store", (Store,), {})
    listeners.change_torch(SimpleNamespace(TCPStore=kind, is_available=lambda: True))  # type: ignore[arg-type]
    made = kind(*args, **given)
    assert made.given.pop("args") == ()
    return dict(made.given)


def test_a_store_that_serves_gets_a_socket_on_loopback() -> None:
    given = store("localhost", 0, 2, True)
    with socket.socket(fileno=given.pop("master_listen_fd")) as held:
        assert held.getsockname() == ("127.0.0.1", given["port"])
    assert given["host_name"] == "127.0.0.1"
    assert (given["world_size"], given["is_master"]) == (2, True)


def test_a_store_that_only_asks_asks_this_machine_on_loopback() -> None:
    assert store(host_name="localhost", port=7, is_master=False) == {
        "host_name": "127.0.0.1",
        "port": 7,
        "is_master": False,
    }


def test_a_store_whose_port_is_in_use_is_left_to_torch() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        given = store("localhost", port, is_master=True, multi_tenant=True)
    assert (given["port"], "master_listen_fd" in given) == (port, False)


def test_a_socket_that_the_script_has_made_stays() -> None:
    assert store("localhost", 7, is_master=True, master_listen_fd=99)["master_listen_fd"] == 99


@pytest.mark.parametrize("off", [OFF, *ONE_HOST])
def test_nothing_changes_where_the_patch_is_off(monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    kind = type("Store", (Store,), {})
    listeners.change_torch(SimpleNamespace(TCPStore=kind, is_available=lambda: True))  # type: ignore[arg-type]
    monkeypatch.setenv(off, "listeners")
    assert kind("localhost", 7, is_master=True).given == {
        "host_name": "localhost",
        "args": (7,),
        "is_master": True,
    }


def test_torchs_own_store_listens_on_loopback_alone() -> None:
    distributed = pytest.importorskip("torch.distributed")
    init = distributed.TCPStore.__init__
    try:
        listeners.change_torch(distributed)
        serving = distributed.TCPStore("0.0.0.0", 0, is_master=True, wait_for_workers=False)
        asking = distributed.TCPStore("localhost", serving.port, is_master=False)
        asking.set("key", "value")
        assert serving.get("key") == b"value"
        assert addresses(serving.port) == {"127.0.0.1"}
        again = distributed.TCPStore("localhost", 0, 1, True, multi_tenant=True)
        same = distributed.TCPStore("localhost", again.port, 1, True, multi_tenant=True)
        assert same.port == again.port
    finally:
        distributed.TCPStore.__init__ = init


def recorded(calls: list[Any]) -> Any:
    def call(*args: Any, **given: Any) -> str:
        calls.append(given if not args else (args, given))
        return "made"

    return call


def test_torchfts_servers_are_told_to_bind_to_loopback_and_whom_to_ask_there() -> None:
    calls: list[Any] = []
    torchft = SimpleNamespace(
        LighthouseServer=recorded(calls), ManagerServer=recorded(calls), LighthouseClient=recorded(calls)
    )
    listeners.change_torchft(torchft)  # type: ignore[arg-type]
    assert torchft.LighthouseServer(bind="[::]:0", min_replicas=1) == "made"
    assert torchft.LighthouseServer("0.0.0.0:29510", 1) == "made"
    torchft.ManagerServer("id", "http://localhost:7", hostname="a.name", bind="[::]:8", store_addr="x:9")
    torchft.LighthouseClient("http://localhost:7", None)
    assert calls == [
        {"bind": "127.0.0.1:0", "min_replicas": 1},
        {"bind": "127.0.0.1:29510", "min_replicas": 1},
        {
            "replica_id": "id",
            "lighthouse_addr": "http://127.0.0.1:7",
            "hostname": "127.0.0.1",
            "bind": "127.0.0.1:8",
            "store_addr": "x:9",
        },
        {"addr": "http://127.0.0.1:7", "connect_timeout": None},
    ]


def test_torchfts_weights_are_served_on_loopback() -> None:
    transport = pytest.importorskip("torchft.checkpointing.http_transport")
    server, sender = transport._IPv6HTTPServer, transport.HTTPTransport
    bind, address = server.server_bind, sender.address
    try:
        listeners.change_weights(transport)
        with server(("", 0), None) as serving:
            port = serving.socket.getsockname()[1]
            assert addresses(port) == {"::ffff:127.0.0.1"}
            sending = SimpleNamespace(_server=serving)
            assert sender.address(sending) in {f"http://127.0.0.1:{port}/checkpoint/", address(sending)}
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
    finally:
        server.server_bind, sender.address = bind, address


def test_a_replica_of_serve_takes_calls_on_loopback() -> None:
    calls: list[Any] = []
    replica = SimpleNamespace(add_port_to_grpc_server=recorded(calls))
    listeners.change_serve(replica)  # type: ignore[arg-type]
    assert replica.add_port_to_grpc_server("server", "[::]:0") == "made"
    assert calls == [(("server", "127.0.0.1:0"), {})]


@pytest.mark.skipif(sys.platform != "linux", reason="SO_BINDTODEVICE is Linux's")
def test_looking_for_sockets_leaves_none_open() -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        listeners.bind_to_device()
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.skipif(sys.platform != "linux", reason="SO_BINDTODEVICE is Linux's")
def test_what_xgboost_listens_on_is_bound_to_the_loopback_device() -> None:
    held: list[socket.socket] = []

    def init(port: int) -> str:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")  # no network during a test
        made.bind(("0.0.0.0", port))
        made.listen()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"")
        held.append(made)
        return "made"

    collective = SimpleNamespace(init=init)
    listeners.change_xgboost(collective)  # type: ignore[arg-type]
    assert collective.init(port=0) == "made"
    (made,) = held
    with made:
        assert addresses(made.getsockname()[1]) == {"0.0.0.0%lo"}


def test_a_call_that_fails_fails_as_it_did() -> None:
    def init() -> None:
        raise ValueError("as ever")

    with pytest.raises(ValueError, match="as ever"):
        listeners.kept_on_device(init)()
