"""The proxy of a class with an address: where it leads, its settings for Caddy, and where it can listen."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lab.errors import PortTakenError, UnsupportedError, UsageError
from lab.host import environment
from lab.host.http import UNREAD_HEADER
from lab.runtime import ports
from lab.topology import LabSpec
from lab.topology.address import Address, bracketed

FOLDER = "proxy"
"""Folder in the lab's folder: its settings, its authority, its certificates. It outlives `down`."""

SETTINGS = "proxy.json"
"""File of its settings there."""


@dataclass(frozen=True)
class Route:
    """Paths, as Caddy matches them, that lead to a service."""

    port: str
    """Name of the service's port."""
    paths: tuple[str, ...]
    home: str
    """The page there that `/` leads to."""
    body_bytes: int = 0
    """Largest body that is passed on; 0 leaves that to the service."""


ROUTES = (
    Route("hub", ("/hub", "/hub/*"), "/hub/", 1 << 20),
    Route("hub", ("/user/*",), "/hub/"),
    Route(
        "gateway",
        (
            *("/class", "/class/*", "/api/*", "/person", "/people/*", "/healthz"),
            # of the queues
            *("/jobs", "/dry-run", "/packages/*", "/workloads", "/workloads/*", "/nodes/*"),
            *("/events", "/queues", "/objects", "/health", "/health/*", "/apply", "/delete"),
        ),
        "/class/",
    ),
)
"""No other path is answered. `/` leads to the home of the first that the lab has."""

READ_HEADERS, IDLE = "60s", "2m"
"""How long a request's first lines may take, and a connection may wait for the next request.

Caddy gives the handshake of TLS as long as the first lines, and hangs up on those that take longer: of three
hundred clients at the same time on a busy machine, many took more than 10 s.
"""

LOG = {
    "format": "filter",
    "wrap": {"format": "console", "level_format": "upper"},
    "fields": {
        "request>headers": {"filter": "delete"},
        "request>uri": {"filter": "regexp", "regexp": r"\?.*", "value": "?..."},
    },
}
"""Lines of the log, without tokens of people: Caddy itself leaves out those in headers that it knows."""

SAID = ("X-Real-Ip", "X-Scheme")
"""Headers of a client's own that JupyterHub would believe before those in which Caddy says the same."""

COMMAND = ("run", "--config")
"""What Caddy is called with, before the file of its settings."""


NOT_PERMITTED = (errno.EACCES, errno.EPERM)


def program() -> str:
    """Caddy: its path, or the bare name where it is not installed, for the error of whoever starts it."""
    return environment.program("caddy") or "caddy"


def routes(names: Collection[str]) -> tuple[Route, ...]:
    """The routes that a lab with the ports of these names has."""
    return tuple(route for route in ROUTES if route.port in names)


def authority(folder: Path) -> Path:
    """The certificate of the authority that vouches for the address of the lab with this folder."""
    return folder / FOLDER / "pki" / "authorities" / "local" / "root.crt"


def settings(
    address: Address, upstreams: Sequence[tuple[Route, str]], *, listen: str, health: str, storage: str
) -> dict[str, object]:
    """Caddy's settings. It has no interface to change them, and asks nobody but ACME's authority for a
    certificate.

    `upstreams` has each route with HOST:PORT of its service, `listen` and `health` are HOST:PORT, `storage`
    is the folder of the authority.
    """
    here = {"host": [address.host]}
    ways = [_way({**here, "path": list(route.paths)}, *_pass_on(route, dial)) for route, dial in upstreams]
    ways.append(_way({**here, "path": ["/"]}, _answer(302, Location=[upstreams[0][0].home])))
    policies = [{"default_sni": address.host, "fallback_sni": address.host}]
    outside = _server(listen, ways, tls_connection_policies=policies)
    inside = _server(health, [_way({"path": ["/healthz"]}, _answer(200, "{}"))])
    local = {"install_trust": False, "name": f"class at {address.host}"}
    issuer = _public(address, listen) if address.acme else {"module": "internal"}
    made: dict[str, object] = {
        "tls": {
            "certificates": {"automate": [address.host]},
            "automation": {"policies": [{"subjects": [address.host], "issuers": [issuer]}]},
        },
        **({} if address.acme else {"pki": {"certificate_authorities": {"local": local}}}),
    }
    files = [{"certificate": address.certificate, "key": address.key}]
    own: dict[str, object] = {
        "tls": {"certificates": {"load_files": files}, "disable_ocsp_stapling": True},
    }
    return {
        "admin": {"disabled": True, "config": {"persist": False}},
        "logging": {"logs": {"default": {"encoder": LOG, "level": "WARN"}}},
        "storage": {"module": "file_system", "root": storage},
        "apps": {
            "http": {"servers": {"address": outside, "health": inside}},
            **(own if address.certificate else made),
        },
    }


def _public(address: Address, listen: str) -> dict[str, object]:
    """A public authority (RFC 8555), which asks at the address itself (RFC 8737): no port 80 is opened."""
    port = int(listen.rpartition(":")[2])
    return {
        "module": "acme",
        "email": address.acme,
        **({"ca": address.acme_server} if address.acme_server else {}),
        "challenges": {"http": {"disabled": True}, "tls-alpn": {"alternate_port": port}},
    }


def _server(listen: str, ways: Sequence[object], **more: object) -> dict[str, object]:
    return {
        "listen": [listen],
        "protocols": ["h1", "h2"],  # HTTP/3 would open a UDP port
        "automatic_https": {"disable": True},  # it would open port 80
        "read_header_timeout": READ_HEADERS,
        "idle_timeout": IDLE,
        "routes": [*ways, {"handle": [_answer(404, "there is no such page\n")]}],
        # what is left of a body that was refused is no request
        "errors": {"routes": [{"handle": [{**_answer("{http.error.status_code}"), "close": True}]}]},
        **more,
    }


def _way(match: Mapping[str, object], *handlers: Mapping[str, object]) -> dict[str, object]:
    return {"match": [match], "handle": handlers, "terminal": True}


def _pass_on(route: Route, dial: str) -> Iterator[dict[str, object]]:
    """Pass on at once what comes, for logs and pages that go on; Caddy says for whom it asks."""
    if route.body_bytes:
        yield {"handler": "request_body", "max_size": route.body_bytes}
    yield {
        "handler": "reverse_proxy",
        "upstreams": [{"dial": dial}],
        "flush_interval": -1,
        "headers": {
            "request": {"delete": list(SAID)},
            "response": {"set": {"Connection": ["close"]}, "require": {"headers": {UNREAD_HEADER: ["1"]}}},
        },
    }


def _answer(status: int | str, body: str = "", **headers: list[str]) -> dict[str, object]:
    return {"handler": "static_response", "status_code": status, "body": body, "headers": headers}


def placed(spec: LabSpec, *, rights: bool = True) -> LabSpec:
    """The settings of a lab that is to be started, with where its address is listened on.

    Raises what `listen_at` raises.
    """
    if spec.address is None:
        return spec
    return replace(spec, address=replace(spec.address, listen=listen_at(spec.address, rights=rights)))


def listen_at(
    address: Address,
    resolve: Callable[[str], Sequence[str]] | None = None,
    bind: Callable[[str, int], int] | None = None,
    *,
    rights: bool = True,
) -> str:
    """The IP address of this machine at which a lab that is to be started can serve the address.

    `resolve` gives a host's addresses, `bind` the error's number, 0 for none. Raises UsageError for another
    machine's address, PortTakenError, and with `rights` UnsupportedError for a port that this user may not
    open.
    """
    known = (resolve or resolved)(address.host)
    if not known and not address.listen:
        raise UsageError(
            f"--address {address.host}: that name cannot be resolved here",
            "check its spelling, add it to DNS or /etc/hosts, or name this machine's address: --listen IP",
        )
    for ip in (address.listen,) if address.listen else known:
        code = (bind or _bound)(ip, address.port)
        if code == 0 or (code in NOT_PERMITTED and not rights):
            return ip
        if code == errno.EADDRINUSE:
            raise PortTakenError(
                f"port {address.port} of {ip} for --address is in use by {ports.holder(address.port)}",
                f"end it, or choose another port: --address {bracketed(address.host)}:8443",
            )
        if code in NOT_PERMITTED:
            raise UnsupportedError(
                f"--address: this user may not open port {address.port}",
                f"choose another: --address {bracketed(address.host)}:8443; or as an administrator: "
                f"sysctl net.ipv4.ip_unprivileged_port_start={address.port}",
            )
    if address.listen:
        hint = "`ip -brief address` lists those that it has"
        raise UsageError(f"--listen {address.listen}: this machine has no such address", hint)
    raise UsageError(
        f"--address {address.host}: that is not this machine, but {', '.join(known)}",
        "where a router passes it on to this machine, name the machine's own address too: --listen 10.0.0.5",
    )


def notes(spec: LabSpec) -> tuple[str, ...]:
    """A fact that a person should know of an address that only this machine reaches, or none."""
    address = spec.address
    if address is None or not (address.listen.startswith("127.") or address.listen == "::1"):
        return ()
    there = "" if address.host == address.listen else f" is {address.listen} here, which"
    return (
        f"address of the class: {address.host}{there or ' is one that'} only this machine reaches; "
        "--listen names another of its addresses",
    )


def resolved(host: str) -> tuple[str, ...]:
    """The IP addresses of a host, as this machine knows it; none where it does not."""
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


def _bound(ip: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ip, port))
        except OSError as error:
            return error.errno or errno.EADDRNOTAVAIL
    return 0
