"""The TCP sockets of this machine on which somebody accepts connections, and who can reach them."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from lab.errors import ServiceError

LOOPBACK_DEVICES = ("lo", "lo0")


@dataclass(frozen=True)
class Listening:
    """One socket."""

    address: str
    """With `%` and the network device behind it, where the socket is bound to one."""
    port: int
    pid: int | None = None
    """Its process, where this user may see it."""

    @property
    def on_loopback(self) -> bool:
        """True when only this machine can reach it."""
        address, _, device = self.address.partition("%")
        ip = ipaddress.ip_address(address)
        mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
        return device in LOOPBACK_DEVICES or (mapped or ip).is_loopback


def reached(service: str, address: str, port: int) -> ServiceError:
    return ServiceError(
        f"{service} listens on {address} port {port}: the network can reach it",
        "what this call started was stopped again; a firewall must close the port before a lab runs here",
    )


def listening() -> tuple[Listening, ...]:
    """Every socket that this user may see. Raises psutil.Error."""
    sockets = [
        (connection.laddr.ip, connection.laddr.port, pid)
        for connection, pid in _connections()
        if connection.status == psutil.CONN_LISTEN and connection.laddr
    ]
    devices = _devices()  # last: a socket may be bound to one after it began to listen
    return tuple(
        Listening(f"{address}%{device}" if (device := devices.get((address, port))) else address, port, pid)
        for address, port, pid in sockets
    )


def _connections() -> Iterator[tuple[Any, int | None]]:
    try:
        yield from ((connection, connection.pid) for connection in psutil.net_connections("tcp"))
    except psutil.AccessDenied:  # macOS, where one sees only one's own
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                yield from ((connection, process.pid) for connection in process.net_connections("tcp"))


# Linux: psutil does not know the device to which a socket is bound (SO_BINDTODEVICE); the kernel tells it.

SOCK_DIAG, BY_FAMILY, DUMP, DONE, ERROR = 4, 20, 0x301, 3, 2
REQUEST, REQUEST_BYTES = "=IHHIIBBBxI48x", 72
LISTEN = 1 << 10
ADDRESS_AT, DEVICE_AT, MESSAGE = 24, 56, "=IH"
SECONDS = 1.0


def _devices() -> Mapping[tuple[str, int], str]:
    """Address and port -> device of those that are bound to one; empty where the kernel does not tell."""
    devices: dict[tuple[str, int], str] = {}
    if sys.platform == "linux":
        with contextlib.suppress(OSError, struct.error):
            for family in (socket.AF_INET, socket.AF_INET6):
                for answer in _asked(family):
                    devices.update(_device(family, answer))
    return devices


def _asked(family: int) -> Iterator[bytes]:
    """The kernel's messages about the listening sockets of this family. Raises OSError."""
    request = struct.pack(
        REQUEST, REQUEST_BYTES, BY_FAMILY, DUMP, 0, 0, family, socket.IPPROTO_TCP, 0, LISTEN
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
        kernel.settimeout(SECONDS)
        kernel.send(request)
        while True:
            data = kernel.recv(1 << 16)
            while data:
                size, kind = struct.unpack_from(MESSAGE, data)
                if kind in (DONE, ERROR):
                    return
                yield data[:size]
                data = data[(size + 3) & ~3 :]


def _device(family: int, answer: bytes) -> dict[tuple[str, int], str]:
    (number,) = struct.unpack_from("=I", answer, DEVICE_AT)
    if not number:
        return {}
    (port,) = struct.unpack_from(">H", answer, ADDRESS_AT - 4)
    size = 4 if family == socket.AF_INET else 16
    address = socket.inet_ntop(family, answer[ADDRESS_AT : ADDRESS_AT + size])
    return {(address, port): socket.if_indextoname(number)}
