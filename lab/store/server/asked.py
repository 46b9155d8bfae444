"""The part of answering a signed request that the stand-in store and the gateway have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO
from urllib.parse import unquote
from xml.sax.saxutils import escape

from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request, Response

from lab.store.server.auth import Signature, authenticate, is_of_signature
from lab.store.server.keys import Keyring, RefusalError
from lab.store.server.minio_api import STATUS_PATH, set_user_status

HEALTH_PATH = "/raylab/health"

RECEIVED_AT_ONCE = 1 << 20
"""Bytes of a body."""


@dataclass(frozen=True)
class S3Request:
    """A request whose signature is verified, and what it asks for."""

    signature: Signature
    path: str
    """As it came, percent-encoded."""
    bucket: str
    """Empty where the request names none, as `key` is."""
    key: str
    query: Mapping[str, Sequence[str]]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The query's parameters, without those of the signature."""
        return tuple(pair for pair in self.signature.query if not is_of_signature(pair[0]))

    @property
    def parameters(self) -> set[str]:
        """Their names."""
        return {name for name, _ in self.pairs}


def verified(request: Request, keys: Keyring, now: datetime) -> S3Request:
    """The request, read and its signature verified; nothing of its body is. Raises RefusalError."""
    path = str(request.environ.get("RAW_URI", "/")).split("?", 1)[0]
    if not path.startswith("/") or path.startswith("//"):
        raise RefusalError(400, "InvalidURI", "the request's path must start with one slash")
    signature = authenticate(request.environ, path, keys, now)
    bucket, _, key = unquote(path)[1:].partition("/")
    query: dict[str, list[str]] = {}
    for name, value in signature.query:
        query.setdefault(name, []).append(value)
    return S3Request(signature, path, bucket, key, query)


def changes_user(request: Request, asked: S3Request, keys: Keyring) -> Response | None:
    """The answer to a request that disables or enables a key; None for any other request."""
    if asked.path != STATUS_PATH or request.method != "PUT":
        return None
    presigned = not request.headers.get("Authorization")
    return set_user_status(keys, asked.signature.key, asked.query, presigned=presigned)


def received(stream: IO[bytes]) -> bytes:
    """A request's body. werkzeug's own `read()` asks the socket for 8 KiB at a time."""
    return b"".join(iter(lambda: stream.read(RECEIVED_AT_ONCE), b""))


def refused(request: Request, log: Callable[[str], None], error: RefusalError) -> Response:
    """The answer to a request that is refused, once the rest of it has come; `log` gets a line."""
    log(f"{request.method} {request.path}: {error.status} {error.code}: {error.message}")
    with contextlib.suppress(OSError, HTTPException):  # slow, malformed, or gone
        while request.stream.read(1 << 16):  # a client that is still sending would not read the answer
            pass
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message>"
        f"<Resource>{escape(request.path)}</Resource><RequestId>0</RequestId></Error>"
    )
    return Response(text, error.status, mimetype="application/xml")
