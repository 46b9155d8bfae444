"""Single S3 requests and their answers as they come. `minio` signs them."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from lab.errors import StoreError
from lab.host import http
from lab.store.base import UnreachableStoreError
from lab.store.s3 import RETRIES, address, check_trusted, parse_address
from lab.topology import REGION, Credentials

if TYPE_CHECKING:
    from urllib3 import PoolManager


REGION_HEADER = "x-amz-bucket-region"


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
        pool: PoolManager | None = None,
    ) -> None:
        """`pool` is the urllib3 pool to use. Raises StoreError when `endpoint_url` is no address."""
        parse_address(endpoint_url)
        self.endpoint_url = endpoint_url.rstrip("/")
        self.credentials, self.region = credentials, region
        self._pool = pool or http.make_pool(RETRIES)

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


def reach(client: SigningClient, bucket: str) -> tuple[S3Reply, StoreError | None]:
    """The answer to a listing of the bucket, and the error that says why it cannot be used, if so.

    Raises UnreachableStoreError.
    """
    answer = client.ask("GET", bucket, [("list-type", "2"), ("max-keys", "1")])
    if answer.status == 200 and "ListBucketResult" in answer.text:
        return answer, None
    if 300 <= answer.status < 400:
        return answer, _elsewhere(client, bucket, answer)
    hints = {
        "NoSuchBucket": "make the bucket, or name another with --bucket",
        "InvalidAccessKeyId": "give the store's key with --s3-credentials",
        "XAdminUserNotFound": "give the store's key with --s3-credentials",
        "SignatureDoesNotMatch": "give the store's key with --s3-credentials; AWS_REGION must be the store's",
        "AccessDenied": "give the key the rights of docs/store.md, or name another bucket with --bucket",
        "RequestTimeTooSkewed": "set the clocks of this machine and of the store",
        "AuthorizationHeaderMalformed": _set_region(answer),
        "SlowDown": "try again when the store is less busy",
    }
    code = answer.code or "no S3 answer"
    detail = f"{client.endpoint_url} answers HTTP {answer.status} ({code}) for the bucket {bucket}"
    return answer, StoreError(detail, hints.get(code, "check the address: is it an S3 server?"))


def _set_region(answer: S3Reply) -> str:
    region = answer.headers.get(REGION_HEADER) or value(answer.text, "Region")
    return f"set AWS_REGION={region or 'to that of the store'}"


def _elsewhere(client: SigningClient, bucket: str, answer: S3Reply) -> StoreError:
    """The error for a store that wants to be asked elsewhere. Nothing follows: a key is for one address."""
    to = urlsplit(answer.headers.get("location", ""))
    host = to.netloc or value(answer.text, "Endpoint") or "HOST"
    code = f" ({answer.code})" if answer.code else ""
    by_region = REGION_HEADER in answer.headers
    return StoreError(
        f"{client.endpoint_url} answers HTTP {answer.status}{code} for the bucket {bucket}: it is elsewhere",
        _set_region(answer) if by_region else f"give its own address: --s3 {to.scheme or 'https'}://{host}",
    )
