"""A certificate of a public authority for a class's address, made by Pebble, Let's Encrypt's for tests."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from urllib3 import PoolManager

from lab.host import certificates, http
from lab.runtime import ports
from lab.services import PROXY
from tests.conftest import needs_go
from tests.e2e.harness import PATIENCE, UP, Bench
from tests.e2e.servers import end
from tests.go_programs import Program, build
from tests.programs import free_port
from tests.unit.host.test_certificates import make
from tests.waiting import eventually

PEBBLE = Program("pebble", "github.com/letsencrypt/pebble/v2/cmd/pebble", "v2.10.3")


@dataclass(frozen=True)
class Authority:
    """An authority that answers."""

    directory: str
    """Its address, for --acme-server."""
    trusted: Path
    """File (PEM) that vouches for it and for the certificates that it makes."""


@pytest.fixture
def port() -> int:
    """The port of the class's address, at which the authority looks for its proof."""
    return ports.choose("gateway", None, (), usual=False)


@pytest.fixture
def authority(tmp_path: Path, port: int) -> Iterator[Authority]:
    with needs_go():
        program = build(PEBBLE, print)
    certificate, key = make(tmp_path, "localhost", 30)
    asked, managed = free_port(), free_port()
    settings = tmp_path / "pebble.json"
    own = {"certificate": str(certificate), "privateKey": str(key), "tlsPort": port, "httpPort": 1}
    listen = {"listenAddress": f"127.0.0.1:{asked}", "managementListenAddress": f"127.0.0.1:{managed}"}
    settings.write_text(json.dumps({"pebble": {**own, **listen}}))
    argv = [str(program), "-config", str(settings)]
    with (tmp_path / "pebble.log").open("wb") as log:
        process = subprocess.Popen(
            argv, env={**os.environ, "PEBBLE_VA_NOSLEEP": "1"}, stdout=log, stderr=log, start_new_session=True
        )
    try:
        pool = PoolManager(ca_certs=str(certificate))
        root = f"https://localhost:{managed}/roots/0"
        made = eventually(lambda: http.request("GET", root, pool=pool), PATIENCE, "Pebble").data.decode()
        trusted = tmp_path / "trusted.pem"
        trusted.write_text(certificate.read_text() + made)
        yield Authority(f"https://localhost:{asked}/dir", trusted)
    finally:
        end(process, signal.SIGTERM)


@pytest.mark.rare
def test_a_public_authority_vouches_for_the_address(
    make_bench: Callable[[], Bench], authority: Authority, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.trusted))
    bench = make_bench()
    asked = ("--class", "--address", f"localhost:{port}", "--acme", "ada@example.org")
    up = bench.labctl(*UP, "--workers", "1", *asked, "--acme-server", authority.directory)
    assert (f"https://localhost:{port}" in up.out, "no certificate" in up.err) == (True, False), up
    made = _shown(port)
    assert "Pebble" in made.issuer.rfc4514_string()
    assert bench.lab.endpoints().authority == ""
    pool = PoolManager(ca_certs=str(authority.trusted))
    assert http.request("GET", f"https://localhost:{port}/healthz", pool=pool).status == 200

    bench.labctl("restart", PROXY)
    eventually(lambda: _shown(port).serial_number == made.serial_number, PATIENCE, "the same certificate")
    checks = bench.labctl("doctor", "--json", code=None).document["checks"]
    assert {one["outcome"] for one in checks if one["name"] in ("address", "ports")} == {"passed"}, checks


def _shown(port: int) -> x509.Certificate:
    """The certificate of the address, which this process trusts."""
    assert certificates.served("127.0.0.1", port, "localhost", None, PATIENCE) > 0
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("localhost", port)).encode())
