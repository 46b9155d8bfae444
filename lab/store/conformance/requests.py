"""Single S3 requests and their answers as they come, below one prefix of one bucket. `minio` signs them."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from lab.errors import StoreError
from lab.host import http
from lab.store.base import UnreachableStoreError
from lab.store.s3 import RETRIES, address, check_trusted, parse_address
from lab.topology import REGION, Credentials

if TYPE_CHECKING:
    from urllib3 import PoolManager


class S3Reply(http.Reply):
    """An answer of an S3 server."""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.data.decode("utf-8", "replace")

    @property
    def code(self) -> str:
        """The S3 error code, or empty."""
        return value(self.text, "Code") if self.status >= 300 else ""


def value(xml: str, name: str) -> str:
    """The text of the first element `name`, or empty. For answers whose form is under test, so not strict."""
    matches = values(xml, name)
    return matches[0] if matches else ""


def values(xml: str, name: str) -> list[str]:
    """The texts of all elements `name` that hold text."""
    parts = xml.split(f"<{name}>")[1:]
    return [html.unescape(part.split("<", 1)[0]) for part in parts]


class SigningClient:
    """Requests to one S3 server by one key."""

    def __init__(
        self,
        endpoint_url: str,
        credentials: Credentials,
        region: str = REGION,
        *,
        ca_file: Path | None = None,
        pool: PoolManager | None = None,
    ) -> None:
        """`pool` is the urllib3 pool to use, `ca_file` (PEM) for clients that bring their own.

        Raises StoreError when `endpoint_url` is no address.
        """
        parse_address(endpoint_url)
        self.endpoint_url = endpoint_url.rstrip("/")
        self.credentials, self.region, self.ca_file = credentials, region, ca_file
        self._pool = pool or http.make_pool(RETRIES)

    def with_key(self, credentials: Credentials) -> SigningClient:
        """The same server, asked with another key."""
        return SigningClient(
            self.endpoint_url, credentials, self.region, ca_file=self.ca_file, pool=self._pool
        )

    def ask(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> S3Reply:
        """The answer to one signed request; `path` is BUCKET/KEY, not encoded.

        Raises UnreachableStoreError.
        """
        from minio.credentials.credentials import Credentials as Key
        from minio.signer import sign_v4_s3

        text = "&".join(f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in sorted(query))
        bucket, slash, key = path.partition("/")
        place = address(self.endpoint_url, quote(bucket), f"{slash}{quote(key)}")
        url = urlsplit(f"{place}{'?' if text else ''}{text}")
        now = datetime.now(timezone.utc)
        digest = hashlib.sha256(body).hexdigest()
        signed = sign_v4_s3(
            method=method,
            url=url,
            region=self.region,
            headers={
                "Host": url.netloc,
                "x-amz-content-sha256": digest,
                "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ"),
                **(headers or {}),
            },
            credentials=Key(self.credentials.access_key, self.credentials.secret_key),
            content_sha256=digest,
            date=now,
        )
        try:
            reply = http.request(
                method,
                url.geturl(),
                headers={n: str(v) for n, v in signed.items()},
                body=body,
                timeout=None,
                pool=self._pool,
            )
        except http.NoAnswerError as error:
            check_trusted(self.endpoint_url, error, "name those that vouch for it (PEM) with --s3-ca FILE")
            raise UnreachableStoreError(
                f"the object store at {self.endpoint_url} cannot be reached: {error}",
                "check the address, and whether the server runs",
            ) from error
        except ValueError as error:
            raise StoreError(f"{self.endpoint_url} cannot be asked: {http.first_line(error)}") from error
        return S3Reply(reply.status, reply.headers, reply.data)


class DeviationError(Exception):
    """The server did something else than S3 does. The message says what."""


class SkippedError(Exception):
    """The question cannot be asked here. The message says why."""


class Bench:
    """One server, one bucket, one prefix."""

    def __init__(self, client: SigningClient, bucket: str, prefix: str) -> None:
        self.client, self.bucket, self.prefix = client, bucket, prefix

    def key(self, name: str) -> str:
        """The whole key of an object of this run."""
        return f"{self.prefix}/{name}"

    def object(
        self,
        method: str,
        name: str,
        body: bytes = b"",
        *query: tuple[str, str],
        headers: dict[str, str] | None = None,
    ) -> S3Reply:
        """A request to one of this run's objects."""
        return self.client.ask(method, f"{self.bucket}/{self.key(name)}", query, body, headers)

    def put(self, name: str, body: bytes) -> S3Reply:
        """Store an object. Raises DeviationError."""
        return want(self.object("PUT", name, body), 200, "storing an object")

    def keys(self, prefix: str = "") -> list[str]:
        """The names of this run's objects that begin with `prefix`. Raises DeviationError."""
        asked = (("list-type", "2"), ("prefix", self.key(prefix)))
        page = want(self.client.ask("GET", self.bucket, asked), 200, "listing")
        return [key.removeprefix(f"{self.prefix}/") for key in values(page.text, "Key")]


def want(answer: S3Reply, status: int, what: str) -> S3Reply:
    """The answer, if it has this status. Raises DeviationError."""
    if answer.status != status:
        code = f" {answer.code}" if answer.code else ""
        raise DeviationError(f"{what} is answered with HTTP {answer.status}{code}, not {status}")
    return answer


def same(actual: object, expected: object, what: str) -> None:
    """Compare two values. Raises DeviationError when they differ."""
    if actual != expected:
        raise DeviationError(f"{what}: {str(actual)[:80]!r} instead of {str(expected)[:80]!r}")
