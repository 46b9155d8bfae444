"""A real S3 server, through `minio`: the one module that imports it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from lab.errors import CertificateError, StoreError
from lab.host.http import NoAnswerError, explained, first_line, make_pool
from lab.host.reading import parse_json
from lab.store.base import (
    LOG_HINT,
    PIECE,
    AccessDeniedError,
    MissingObjectError,
    Store,
    StoredObject,
    UnreachableStoreError,
)
from lab.topology import BUCKET, REGION, Credentials

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from botocore.exceptions import ClientError
    from urllib3 import PoolManager

RETRIES = 2
KEY_HINT = "the key of a lab is in its state; another store may answer at that address"
NOT_READY = ("XMinioServerNotInitialized", "ServerNotInitialized", "ServiceUnavailable", "SlowDown")


class ObjectStore(Store):
    """A bucket of a real S3 server."""

    def __init__(
        self,
        endpoint_url: str,
        credentials: Credentials,
        region: str = REGION,
        bucket: str = BUCKET,
        *,
        http: PoolManager | None = None,
        advice: str = "",
    ) -> None:
        """`endpoint_url` is http(s)://host:port. Nothing is asked of the server yet.

        `http` is the urllib3 pool to use; by default one that soon gives up where nobody answers. `advice` is
        the hint of errors in place of those for a lab's own store.
        """
        self.endpoint_url, self.region, self.bucket = endpoint_url, region, bucket
        self._credentials, self._given_http, self._advice = credentials, http, advice

    def in_bucket(self, name: str) -> ObjectStore:
        return ObjectStore(
            self.endpoint_url, self._credentials, self.region, name, http=self._http, advice=self._advice
        )

    def ensure_bucket(self, name: str = "") -> bool:
        with self._explain(ignore=("BucketAlreadyOwnedByYou", "BucketAlreadyExists")):
            # asked first: some servers answer 200 for a bucket that there is
            if (name or self.bucket) not in {bucket.name for bucket in self._client.list_buckets()}:
                self._client.make_bucket(name or self.bucket)
                return True
        return False

    def put(self, key: str, data: bytes) -> None:
        with self._explain(key):
            self._client.put_object(self.bucket, key, io.BytesIO(data), len(data))

    def read(self, key: str) -> Iterator[bytes]:
        with self._explain(key):
            response = self._client.get_object(self.bucket, key)
            try:
                yield from response.stream(PIECE)
            finally:
                response.close()
                response.release_conn()

    def list(self, prefix: str = "", recursive: bool = True) -> tuple[StoredObject, ...]:
        with self._explain():
            return tuple(
                StoredObject(
                    key=entry.object_name or "",
                    size=entry.size or 0,
                    modified=entry.last_modified.timestamp() if entry.last_modified else 0.0,
                    etag=(entry.etag or "").strip('"'),
                )
                for entry in self._client.list_objects(self.bucket, prefix, recursive=recursive)
            )

    def exists(self, key: str) -> bool:
        with self._explain():  # a listing, since the answer to HEAD cannot say what is wrong
            entries = self._client.list_objects(self.bucket, key, recursive=True)
            first = next(iter(entries), None)
        return first is not None and first.object_name == key

    def delete(self, keys: Iterable[str]) -> None:
        from minio.deleteobjects import DeleteObject

        with self._explain():
            failed = list(self._client.remove_objects(self.bucket, (DeleteObject(key) for key in keys)))
        if failed:
            raise StoreError(
                f"{self.endpoint_url} did not delete {len(failed)} objects, "
                f"among them s3://{self.bucket}/{failed[0].name}: {failed[0].code}: {failed[0].message}",
                LOG_HINT,
            )

    def ping(self) -> str:
        with self._explain():
            self._client.list_buckets()
            health = self._http.request("GET", f"{self.endpoint_url.rstrip('/')}/raylab/health")
        with contextlib.suppress(ValueError, KeyError, TypeError):
            answer = parse_json(health.data)
            return f"{answer['server']} {answer['version']}"
        return str(health.headers.get("Server") or "an S3 server that does not say its name")

    @cached_property
    def _http(self) -> PoolManager:
        return make_pool(RETRIES) if self._given_http is None else self._given_http

    @cached_property
    def _client(self) -> BaseClient:
        from minio import Minio

        parts = parse_address(self.endpoint_url)
        return Minio(
            parts.netloc,
            access_key=self._credentials.access_key,
            secret_key=self._credentials.secret_key,
            secure=parts.scheme == "https",
            region=self.region,
            http_client=self._http,
        )

    @contextlib.contextmanager
    def _explain(self, key: str = "", *, ignore: tuple[str, ...] = ()) -> Iterator[None]:
        from minio.error import MinioException, S3Error

        try:
            with explained():
                yield
        except S3Error as error:
            if error.code not in ignore:
                raise self._refusal(error, key) from error
        except MinioException as error:
            raise StoreError(
                f"what answers at {self.endpoint_url} is not an object store: {first_line(error)}",
                "check the address; another program may hold that port",
            ) from error
        except ValueError as error:  # minio checks names before it asks
            raise StoreError(f"the object store at {self.endpoint_url} cannot be asked: {error}") from error
        except NoAnswerError as error:
            if error.untrusted:
                raise CertificateError(
                    f"the object store at {self.endpoint_url} is not trusted: {error}",
                    "name those that vouch for it (PEM) in SSL_CERT_FILE",
                ) from error
            raise UnreachableStoreError(
                f"the object store at {self.endpoint_url} cannot be reached: {error}",
                self._advice or "see whether the lab is up: labctl status",
            ) from error

    def _refusal(self, error: ClientError, key: str) -> StoreError:
        where, code, said = f"the object store at {self.endpoint_url}", str(error.code), error.message
        status = getattr(error.response, "status", None)
        # not the whole access key: some servers let in whoever knows it
        access_key = f"{self._credentials.access_key[:4]}..."
        key_hint, log_hint = self._advice or KEY_HINT, self._advice or LOG_HINT
        known = {
            "NoSuchBucket": (f"{where} has no bucket {self.bucket!r}", self._advice or "labctl up makes it"),
            "InvalidAccessKeyId": (f"{where} does not know the access key {access_key}", key_hint),
            "SignatureDoesNotMatch": (f"{where} refuses the secret key for {access_key}", key_hint),
            "RequestTimeTooSkewed": (f"the clock of {where} differs from this machine's", "set the clocks"),
        }
        if code in ("NoSuchKey", "NoSuchObject"):
            return MissingObjectError(f"s3://{self.bucket}/{key} is not in {where}")
        if code == "AccessDenied":
            return AccessDeniedError(f"{where} denies access: {said}", "check the rights of the key")
        if code in NOT_READY or status == 503:
            return UnreachableStoreError(f"{where} is not ready: {code}: {said}", log_hint)
        if "StorageFull" in code or status == 507:
            return StoreError(
                f"{where} cannot store anything more: {said}", "free some space on the disk it writes to"
            )
        return StoreError(*known.get(code, (f"{where} answers {code}: {said}", log_hint)))


def parse_address(url: str) -> SplitResult:
    """The parts of an object store's address. Raises StoreError for what is none."""
    parts = urlsplit(url)
    more = parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in ("http", "https") or not parts.netloc or more:
        raise StoreError(f"{url!r} is not an address of an object store", "use http://host:port")
    return parts
