"""Ports: which are free, who holds one, which is chosen."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace

import psutil
import pytest

from lab.errors import PortTakenError
from lab.runtime import ports
from lab.services import PORTS


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that this test listens on."""
    with socket.socket() as listener:
        listener.bind((ports.LOOPBACK, 0))
        listener.listen()
        yield int(listener.getsockname()[1])


def test_a_port_that_somebody_listens_on_is_not_free(taken: int) -> None:
    assert not ports.is_free(taken)


def test_a_port_whose_listener_is_gone_is_free() -> None:
    with socket.socket() as listener:
        listener.bind((ports.LOOPBACK, 0))
        listener.listen()
        port = int(listener.getsockname()[1])

    assert ports.is_free(port)


@pytest.mark.parametrize(
    ("code", "free"),
    [
        (errno.EADDRINUSE, False),
        (errno.EACCES, False),
        (errno.EADDRNOTAVAIL, True),
        (errno.EAFNOSUPPORT, True),
    ],
)
def test_a_machine_without_ipv6_still_has_free_ports(
    monkeypatch: pytest.MonkeyPatch, code: int, free: bool
) -> None:
    class Socket(socket.socket):
        def bind(self, address: object) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(code, os.strerror(code))

    monkeypatch.setattr(socket, "socket", Socket)

    assert ports.is_free(1) is free


def test_a_port_in_place_of_the_usual_one_is_none_that_the_system_hands_out() -> None:
    chosen = {ports.choose("gcs", None, (), usual=False) for _ in range(20)}

    assert all(25_000 <= port < 32_768 for port in chosen)
    assert len(chosen) > 1


def test_where_none_of_those_is_free_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda _: False)

    with pytest.raises(PortTakenError) as caught:
        ports.choose("gcs", None, (), usual=False)
    assert caught.value.hint == "choose one with --port gcs=NUMBER"


def connection(port: int, pid: int | None, status: str = psutil.CONN_LISTEN) -> SimpleNamespace:
    return SimpleNamespace(laddr=SimpleNamespace(ip="127.0.0.1", port=port), pid=pid, status=status)


def test_the_holder_of_a_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = [
        SimpleNamespace(laddr=(), pid=1, status="NONE"),
        connection(99, 4, "ESTABLISHED"),
        connection(99, 5),
    ]
    monkeypatch.setattr(psutil, "net_connections", lambda _: connections)
    monkeypatch.setattr(psutil, "Process", lambda pid: SimpleNamespace(name=lambda: f"program{pid}"))

    assert ports.holder(99) == "program5 (process 5)"


@pytest.mark.parametrize("connections", [[], [connection(99, None)]])
def test_a_holder_that_cannot_be_seen_is_called_that(
    monkeypatch: pytest.MonkeyPatch, connections: list[SimpleNamespace]
) -> None:
    monkeypatch.setattr(psutil, "net_connections", lambda _: connections)

    assert "may not see" in ports.holder(99)


def test_a_system_that_does_not_tell_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: str) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", denied)
    monkeypatch.setattr(psutil, "process_iter", lambda: ())

    assert "may not see" in ports.holder(99)


def test_a_wanted_port_that_is_taken_names_its_holder(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "holder", lambda port: f"nginx (process {port})")

    with pytest.raises(PortTakenError, match=rf"{taken} .*nginx .process {taken}") as caught:
        ports.choose("s3", taken, ())
    assert "--port s3=NUMBER" in caught.value.hint


def test_the_wanted_port_then_the_usual_one_then_any(monkeypatch: pytest.MonkeyPatch) -> None:
    busy: set[int] = set()
    monkeypatch.setattr(ports, "is_free", lambda port: port not in busy)

    assert ports.choose("s3", 9999, ()) == 9999
    assert ports.choose("s3", None, ()) == 9000
    assert ports.choose("s3", None, {9000}) not in (9000, 0)
    busy.add(9000)
    assert ports.choose("s3", None, ()) not in (9000, 0)


def test_a_reserved_port_is_not_given_again() -> None:
    with pytest.raises(PortTakenError, match="reserved"):
        ports.choose("s3", 9999, {9999})


def test_every_service_has_a_usual_port_of_its_own() -> None:
    assert len({port.usual for port in PORTS.values()}) == len(PORTS)
