"""Single S3 requests and their answers as they come. `minio` signs them."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from lab.host import http
from lab.store.s3 import RETRIES
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
        *,
        pool: PoolManager | None = None,
    ) -> None:
        """`pool` is the urllib3 pool to use."""
        self.endpoint_url, self.credentials = endpoint_url, credentials
        self._pool = pool or http.make_pool(RETRIES)

    def ask(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]] = (),
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> S3Reply:
        """The answer to one signed request; `path` is BUCKET/KEY, not encoded."""
        from minio.credentials.credentials import Credentials as Key
        from minio.signer import sign_v4_s3

        text = "&".join(f"{quote(n, safe='')}={quote(v, safe='')}" for n, v in sorted(query))
        url = urlsplit(f"{self.endpoint_url}/{quote(path)}{'?' if text else ''}{text}")
        now = datetime.now(timezone.utc)
        digest = hashlib.sha256(body).hexdigest()
        signed = sign_v4_s3(
            method=method,
            url=url,
            region=REGION,
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
        reply = http.request(
            method,
            url.geturl(),
            headers={n: str(v) for n, v in signed.items()},
            body=body,
            timeout=None,
            pool=self._pool,
        )
        return S3Reply(reply.status, reply.headers, reply.data)
