"""Certificates of TLS servers: one's own before it is used, and what a server that runs shows."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
from pathlib import Path

from lab.errors import NotFoundError, UsageError
from lab.host.reading import SMALL, read_text


def fingerprint(path: Path) -> str:
    """SHA-256 of the first certificate in a file (PEM), in the form of browsers and openssl.

    Raises OSError, ValueError.
    """
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    inner = read_text(path, SMALL).partition(begin)[2].partition(end)[0]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(begin + inner + end)).digest().hex(":").upper()


def check_own(certificate: Path, key: Path, host: str) -> float:
    """Check that a server can show this certificate for a host; returns its end in seconds since the epoch.

    Raises NotFoundError for a file that cannot be read, UsageError for what no client would accept.
    """
    for option, path in (("--tls-cert", certificate), ("--tls-key", key)):
        try:
            read_text(path, SMALL)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not text"
            hint = f"name a file (PEM) that this user may read: {option} FILE"
            raise NotFoundError(f"{option}: cannot read {path}: {why}", hint) from error
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        server.load_cert_chain(certificate, key, password=lambda: "")
        client = _client(certificate)
    except (ssl.SSLError, ValueError) as error:
        raise UsageError(
            f"--tls-cert {certificate} and --tls-key {key} are not a certificate and its key",
            "both must be PEM: the server's own certificate first, and a key without a passphrase",
        ) from error
    try:
        return _end(_shake_hands(client, server, host))
    except ssl.SSLCertVerificationError as error:
        hint = "use another one, or leave --tls-cert out: then the lab's own authority makes one"
        message = f"--tls-cert {certificate} is not valid for {host}: {error.verify_message}"
        raise UsageError(message, hint) from error


def served(ip: str, port: int, host: str, trusted: Path | None, seconds: float) -> float:
    """The end of the certificate that is shown at an address for this host, in seconds since the epoch.

    Raises OSError: nobody answers within so many seconds, or what is shown is not vouched for by `trusted`;
    None: by any authority that this machine trusts.
    """
    context = ssl.create_default_context() if trusted is None else _client(trusted)
    with (
        socket.create_connection((ip, port), seconds) as connection,
        context.wrap_socket(connection, server_hostname=host) as tls,
    ):
        return _end(tls)


def _client(trusted: Path) -> ssl.SSLContext:
    """A client that trusts the certificates in this file and no others, also those of servers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(trusted)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """The client's end of a connection within this process. Raises SSLCertVerificationError."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(back, there, server_hostname=host)
    answering = server.wrap_bio(there, back, server_side=True)
    for side in (asking, answering, asking):  # TLS 1.3: the client's end has all it needs by then
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return asking


def _end(side: ssl.SSLObject | ssl.SSLSocket) -> float:
    shown = side.getpeercert()
    assert shown is not None, "the client asks for one"
    return float(ssl.cert_time_to_seconds(str(shown["notAfter"])))
