"""The proxy of a class: which address it has, where it can listen, where it leads."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from lab.daemons.gateway.routes import Routes
from lab.errors import LabError, PortTakenError, UnsupportedError, UsageError
from lab.host.http import UNREAD_HEADER
from lab.runtime import proxy
from lab.topology import LabSpec
from lab.topology.address import Address

HERE = Address("class.example.org", 8443)


@pytest.mark.parametrize(
    ("text", "host", "port", "url"),
    [
        ("Class.Example.org", "class.example.org", 443, "https://class.example.org"),
        ("class.example.org:8443", "class.example.org", 8443, "https://class.example.org:8443"),
        ("localhost:443", "localhost", 443, "https://localhost"),
        ("192.0.2.7:8443", "192.0.2.7", 8443, "https://192.0.2.7:8443"),
        ("2001:db8::7", "2001:db8::7", 443, "https://[2001:db8::7]"),
        ("[2001:db8::7]:8443", "2001:db8::7", 8443, "https://[2001:db8::7]:8443"),
    ],
)
def test_an_address(text: str, host: str, port: int, url: str) -> None:
    address = Address.of(text)
    assert (address.host, address.port, address.url) == (host, port, url)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ":8443",
            "https://class.example.org",
            "class.example.org/hub",
            "a b",
            "a_b",
            "-a.org",
            "a..org",
        ),
        *(
            "0.0.0.0:8443",
            "[::]:443",
            "224.0.0.1",
            "300.1.1.1",
            "1.2.3",
            "a..org",
            "class:0",
            "class:65536",
            "class:x",
        ),
        *(
            "class:",
            "class:x",
            "[class]:443",
            "2001:db8::g",
            "a" * 64,
            "{env.HOME}",
            "*.example.org",
            "ann@class",
        ),
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="not the address") as caught:
        Address.of(text)
    assert "HOST or HOST:PORT" in caught.value.hint


def test_an_address_is_for_a_class_and_listens_at_one_of_the_machines() -> None:
    with pytest.raises(UsageError, match="--address is for a class"):
        LabSpec(address=HERE)
    for listen in ("eth0", "0.0.0.0", "::"):
        with pytest.raises(UsageError, match="not an IP address"):
            Address("class", listen=listen)
    lab, plain = LabSpec(classroom=True, address=HERE), LabSpec(classroom=True)
    assert lab.unlike(plain) == "on this machine only"
    assert plain.unlike(lab) == "reached at https://class.example.org:8443"


@pytest.mark.parametrize(
    ("codes", "listen", "expected"),
    [
        ([0], "", "192.0.2.1"),
        ([errno.EADDRNOTAVAIL, 0], "", "192.0.2.2"),
        ([0], "10.0.0.5", "10.0.0.5"),
    ],
)
def test_it_listens_at_an_address_of_this_machine(codes: list[int], listen: str, expected: str) -> None:
    asked = iter(codes)
    address = Address("class.example.org", 8443, listen)
    assert proxy.listen_at(address, names("192.0.2.1", "192.0.2.2"), lambda *_: next(asked)) == expected


@pytest.mark.parametrize(
    ("known", "code", "listen", "error", "words"),
    [
        ((), 0, "", UsageError, "that name cannot be resolved here"),
        (("192.0.2.1",), errno.EADDRNOTAVAIL, "", UsageError, "that is not this machine, but 192.0.2.1"),
        (("192.0.2.1",), errno.EADDRNOTAVAIL, "10.0.0.5", UsageError, "this machine has no such address"),
        (
            ("192.0.2.1",),
            errno.EADDRINUSE,
            "",
            PortTakenError,
            "port 443 of 192.0.2.1 for --address is in",
        ),
        (("192.0.2.1",), errno.EACCES, "", UnsupportedError, "this user may not open port 443"),
    ],
)
def test_where_it_cannot_listen(
    known: Sequence[str], code: int, listen: str, error: type[LabError], words: str
) -> None:
    address = Address("class.example.org", 443, listen)
    with pytest.raises(error, match=re.escape(words)) as caught:
        proxy.listen_at(address, names(*known), lambda *_: code)
    assert caught.value.hint


def test_a_port_that_somebody_else_opens_needs_no_rights() -> None:
    address = Address("class.example.org", 443)
    assert proxy.listen_at(address, names("192.0.2.1"), lambda *_: errno.EACCES, rights=False) == "192.0.2.1"


def test_an_address_that_only_this_machine_reaches_is_said() -> None:
    (note,) = proxy.notes(LabSpec(classroom=True, address=Address("class", listen="127.0.1.1")))
    assert "which only this machine reaches" in note
    (note,) = proxy.notes(LabSpec(classroom=True, address=Address("127.0.0.1", listen="127.0.0.1")))
    assert "127.0.0.1 is one that only this machine reaches" in note
    assert proxy.notes(LabSpec(classroom=True, address=Address("class", listen="192.0.2.1"))) == ()
    assert proxy.notes(LabSpec()) == ()


def names(*known: str) -> Any:
    return lambda host: known


def settings(address: Address = HERE, *ports: str) -> dict[str, Any]:
    ways = [(route, f"{route.port}:1") for route in proxy.routes(dict.fromkeys(ports or ("gateway",), 1))]
    made = proxy.settings(address, ways, listen="192.0.2.1:8443", health="127.0.0.1:1", storage="/there")
    copy: dict[str, Any] = json.loads(json.dumps(made))
    return copy


def test_one_port_is_open_and_nobody_can_change_the_settings() -> None:
    made = settings()
    servers = made["apps"]["http"]["servers"]
    assert [server["listen"] for server in servers.values()] == [["192.0.2.1:8443"], ["127.0.0.1:1"]]
    assert all(server["protocols"] == ["h1", "h2"] for server in servers.values())
    assert all(server["automatic_https"] == {"disable": True} for server in servers.values())
    assert "tls_connection_policies" in servers["address"]
    assert made["admin"] == {"disabled": True, "config": {"persist": False}}


def test_a_handshake_on_a_busy_machine_may_take_a_minute() -> None:
    outside = settings()["apps"]["http"]["servers"]["address"]
    assert outside["read_header_timeout"] == "60s"


def test_a_path_that_is_in_no_route_is_not_answered() -> None:
    ways = settings(HERE, "gateway")["apps"]["http"]["servers"]["address"]["routes"]
    assert all(way["match"][0]["host"] == [HERE.host] for way in ways[:-1])
    assert ways[-1] == {"handle": [ways[-1]["handle"][0]]}
    assert ways[-1]["handle"][0]["status_code"] == 404
    assert {path for way in ways[:-1] for path in way["match"][0]["path"]}.isdisjoint({"*", "/*"})


@pytest.mark.parametrize(("ports", "home"), [(("gateway",), "/class/"), (("gateway", "hub"), "/hub/")])
def test_the_first_page_is_the_hub_where_there_is_one(ports: tuple[str, ...], home: str) -> None:
    ways = settings(HERE, *ports)["apps"]["http"]["servers"]["address"]["routes"]
    first = next(way["handle"][0] for way in ways if way.get("match", [{}])[0].get("path") == ["/"])
    assert (first["status_code"], first["headers"]["Location"]) == (302, [home])
    dials = [way["handle"][-1]["upstreams"][0]["dial"] for way in ways[:-2]]
    assert list(dict.fromkeys(dials)) == [f"{name}:1" for name in sorted(ports, reverse=True)]


def test_no_client_says_for_whom_it_asks() -> None:
    ways = settings(HERE, "gateway", "hub")["apps"]["http"]["servers"]["address"]["routes"]
    for way in ways[:-2]:
        assert way["handle"][-1]["headers"]["request"]["delete"] == ["X-Real-Ip", "X-Scheme"]


def test_a_connection_ends_where_the_rest_of_a_body_would_be_the_next_request() -> None:
    ways = settings(HERE, "gateway")["apps"]["http"]["servers"]["address"]["routes"]
    headers = ways[0]["handle"][-1]["headers"]["response"]
    assert headers["require"] == {"headers": {UNREAD_HEADER: ["1"]}}
    assert headers["set"] == {"Connection": ["close"]}


def test_what_would_keep_a_body_in_memory_gets_no_large_one() -> None:
    server = settings(HERE, "gateway", "hub")["apps"]["http"]["servers"]["address"]
    ways, (refusal,) = server["routes"], server["errors"]["routes"]
    sizes = {path: way["handle"][0].get("max_size") for way in ways[:-2] for path in way["match"][0]["path"]}
    assert (sizes["/hub/*"], sizes["/user/*"], sizes["/api/*"]) == (1 << 20, None, None)
    assert refusal["handle"][0]["close"], "the rest of the body would be read as the next request"


def test_every_page_of_the_gateway_is_reached() -> None:
    (route,) = proxy.routes({"gateway": 1})
    jobs: Any = type("Jobs", (), {"__getattr__": lambda self, name: None})()
    for _, pattern, _ in Routes(jobs, jobs)._routes:
        first = re.split(r"(?<=\w)/|[(\[]", pattern.replace("(?:", "("), maxsplit=1)[0]
        names = re.findall(r"^/\(\??:?([^()]+)", pattern) or [first.strip("/")]
        for name in names[0].split("|"):
            assert any(path.startswith(f"/{name.partition('/')[0]}") for path in route.paths), pattern


def test_a_certificate_of_ones_own_takes_the_place_of_the_authoritys() -> None:
    made = settings()["apps"]["tls"]
    assert made["automation"]["policies"] == [{"subjects": [HERE.host], "issuers": [{"module": "internal"}]}]
    own = settings(Address(HERE.host, certificate="/a/cert.pem", key="/a/key.pem"))["apps"]["tls"]
    assert own["certificates"] == {"load_files": [{"certificate": "/a/cert.pem", "key": "/a/key.pem"}]}
    assert "automation" not in own


def test_a_public_authority_is_asked_for_the_certificate_and_asks_at_the_address() -> None:
    made = settings(Address(HERE.host, acme="ada@example.org"))["apps"]
    (policy,) = made["tls"]["automation"]["policies"]
    challenges = {"http": {"disabled": True}, "tls-alpn": {"alternate_port": 8443}}
    issuer = {"module": "acme", "email": "ada@example.org", "challenges": challenges}
    assert policy == {"subjects": [HERE.host], "issuers": [issuer]}
    assert "pki" not in made
    server = "https://acme.example.org/directory"
    other = settings(Address(HERE.host, 8443, acme="ada@example.org", acme_server=server))["apps"]
    assert other["tls"]["automation"]["policies"][0]["issuers"] == [{**issuer, "ca": server}]


def test_the_log_has_no_tokens() -> None:
    fields = settings()["logging"]["logs"]["default"]["encoder"]["fields"]
    assert fields["request>headers"] == {"filter": "delete"}
    assert re.sub(fields["request>uri"]["regexp"], "", "/user/ann/lab?token=secret") == "/user/ann/lab"
