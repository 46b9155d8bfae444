"""Who can reach a socket of this machine. Sockets on loopback are real, the kernel's answers are Linux's."""

from __future__ import annotations

import os
import socket
import sys

import psutil
import pytest

from lab.host.listening import Listening, listening


@pytest.mark.parametrize(
    ("address", "on_loopback"),
    [
        ("127.0.0.1", True),
        ("127.0.1.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0%lo", True),
        ("::%lo0", True),
        ("0.0.0.0", False),
        ("0.0.0.0%eth0", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_an_address_is_on_loopback_or_the_network_reaches_it(address: str, on_loopback: bool) -> None:
    assert Listening(address, 1).on_loopback is on_loopback


def mine(port: int) -> list[Listening]:
    return [listener for listener in listening() if listener.port == port]


def test_a_socket_is_there_while_it_listens_with_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert mine(port) == [Listening("127.0.0.1", port, os.getpid())]
    assert mine(port) == []


@pytest.mark.skipif(sys.platform != "linux", reason="SO_BINDTODEVICE is Linux's")
@pytest.mark.parametrize(("family", "everywhere"), [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")])
def test_a_socket_that_is_bound_to_the_loopback_device_is_on_loopback(family: int, everywhere: str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")  # before anybody can reach it
        server.bind((everywhere, 0))
        server.listen()
        (listener,) = mine(server.getsockname()[1])
    assert (listener.address, listener.on_loopback) == (f"{everywhere}%lo", True)


def test_where_one_may_see_only_ones_own_these_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(kind: str) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", refuse)
    monkeypatch.setattr(psutil, "process_iter", lambda: [psutil.Process()])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert mine(port) == [Listening("127.0.0.1", port, os.getpid())]
