"""Single S3 requests and their answers as they came, to ask a server how it behaves. `minio` signs them."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote, urlsplit

from lab.errors import StoreError
from lab.host import http as door
from lab.store.base import UnreachableStoreError
from lab.store.s3 import RETRIES
from lab.topology import REGION, Credentials


@dataclass(frozen=True)
class Answer:
    """What came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    @property
    def code(self) -> str:
        """The S3 error code, or empty."""
        return value(self.text, "Code") if self.status >= 300 else ""


def value(xml: str, name: str) -> str:
    """The text of the first element `name`, or empty. For answers whose form is under test, so not strict."""
    found = values(xml, name)
    return found[0] if found else ""


def values(xml: str, name: str) -> list[str]:
    """The texts of all elements `name` that hold text."""
    parts = xml.split(f"<{name}>")[1:]
    return [html.unescape(part.split("<", 1)[0]) for part in parts]


class Client:
    """Requests to one S3 server by one key, with the bucket in the path."""

    def __init__(
        self, endpoint_url: str, credentials: Credentials, region: str = REGION, *, http: Any = None
    ) -> None:
        """`http` is the urllib3 pool to use. Raises StoreError when `endpoint_url` is no address."""
        parts = urlsplit(endpoint_url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
            raise StoreError(f"{endpoint_url!r} is no address of an object store", "use http://host:port")
        self.endpoint_url = endpoint_url.rstrip("/")
        self._host = parts.netloc
        self.credentials, self.region = credentials, region
        self._http = http or door.make_pool(RETRIES)

    def with_key(self, credentials: Credentials) -> Client:
        """The same server, asked with another key."""
        return Client(self.endpoint_url, credentials, self.region, http=self._http)

    def ask(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer to one signed request; `path` is BUCKET/KEY, not encoded.

        Raises UnreachableStoreError.
        """
        from minio.credentials.credentials import Credentials as Key
        from minio.signer import sign_v4_s3

        text = "&".join(f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in sorted(query))
        url = urlsplit(f"{self.endpoint_url}/{quote(path)}{'?' if text else ''}{text}")
        now = datetime.now(timezone.utc)
        digest = hashlib.sha256(body).hexdigest()
        signed = sign_v4_s3(
            method=method,
            url=url,
            region=self.region,
            headers={
                "Host": self._host,
                "x-amz-content-sha256": digest,
                "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ"),
                **(headers or {}),
            },
            credentials=Key(self.credentials.access_key, self.credentials.secret_key),
            content_sha256=digest,
            date=now,
        )
        try:
            reply = door.request(
                method,
                url.geturl(),
                headers={n: str(v) for n, v in signed.items()},
                body=body,
                timeout=None,
                pool=self._http,
            )
        except door.NoAnswerError as error:
            raise UnreachableStoreError(
                f"the object store at {self.endpoint_url} cannot be reached: {error}",
                "check the address, and whether the server runs",
            ) from error
        except ValueError as error:
            raise StoreError(f"{self.endpoint_url} cannot be asked: {door.first_line(error)}") from error
        return Answer(reply.status, reply.headers, reply.data)
