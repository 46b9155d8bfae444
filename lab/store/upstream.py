"""An object store that was there before the lab: its address, key and bucket, and whether a lab can use it.

The lab's own store is then a gateway to it (lab.store.server.gateway), the only process that has its key.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.api.light import restore
from lab.errors import RefusedError, StoreError, UsageError
from lab.host.clock import MONOTONIC, Clock
from lab.host.files import write_private
from lab.host.http import make_pool
from lab.host.reading import SMALL, parse_json, read_text
from lab.host.secrets import UPSTREAM_FILE, read_key
from lab.store.s3 import RETRIES, parse_address
from lab.topology import REGION, Credentials, S3Place

if TYPE_CHECKING:
    from urllib3 import PoolManager

    from lab.store.requests import S3Reply, SigningClient

READ_SECONDS = 60.0
"""Longest silence of the other store while it answers."""

TRY_SECONDS = 20.0
"""The same while the store is tried out."""

HEALTH_SECONDS = 1.5
"""Deadline of the question whether the store serves, which a lab asks all the time: who asks waits 2 s."""

TRIED = ".raylab/tried"
"""Folder of the objects by which it is tried out."""


@dataclass(frozen=True)
class Upstream:
    """A bucket of an object store that the lab did not start."""

    url: str
    bucket: str
    credentials: Credentials
    region: str = REGION
    ca: str = ""
    """Certificates (PEM) that vouch for the store's own; empty for those of the system."""

    @property
    def place(self) -> S3Place:
        """Its bucket, without the key."""
        return S3Place(self.url, self.bucket)

    def pool(self, retries: int = RETRIES, read: float = READ_SECONDS) -> PoolManager:
        """A urllib3 pool for it. Raises UsageError when `ca` holds no certificates."""
        return pool_for(self.ca, retries, read)


def file_in(folder: Path) -> Path:
    """The file in a lab's folder that names its upstream, from `up --s3` until `up --no-s3`."""
    return folder / "secrets" / UPSTREAM_FILE


def place_kept_in(folder: Path) -> S3Place | None:
    """The bucket that such a file names, or None where there is no file. Raises UsageError."""
    path = file_in(folder)
    if not path.exists():
        return None
    return load(path).place


def save(path: Path, upstream: Upstream) -> None:
    """Write it into a file of mode 0600. Raises SetupError."""
    write_private(path, json.dumps(dataclasses.asdict(upstream)))


def load(path: Path) -> Upstream:
    """The upstream in such a file. Raises UsageError."""
    try:
        return restore(Upstream, parse_json(read_text(path, SMALL)))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} names no object store ({error})", "`labctl up --s3` writes it") from error


def named(
    url: str, bucket: str, key_file: Path, ca_file: Path | None, environ: Mapping[str, str]
) -> Upstream:
    """What a person named: the key in a file that only its owner may read, the region in AWS's variables.

    Raises UsageError; RefusedError for a key that others may read.
    """
    try:
        parse_address(url)
    except StoreError as error:
        raise UsageError(f"--s3 {error.message}", error.hint) from error
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or REGION
    key = read_key(key_file, "--s3-credentials names it", environ.get("AWS_PROFILE", "") or "default")
    if (mode := key_file.stat().st_mode & 0o777) & 0o077:
        raise RefusedError(
            f"others may read {key_file} (mode {mode:04o}), which holds a key", f"chmod 600 {key_file}"
        )
    return Upstream(url.rstrip("/"), bucket, key, region, read_certificates(ca_file))


def read_certificates(file: Path | None) -> str:
    """The text of such a file; empty without one. Raises UsageError."""
    try:
        return "" if file is None else read_text(file, SMALL)
    except (OSError, ValueError) as error:
        raise UsageError(f"--s3-ca {file} cannot be read: {getattr(error, 'strerror', error)}") from error


def pool_for(ca: str, retries: int, read: float) -> PoolManager:
    """A urllib3 pool that trusts these certificates (PEM) too. Raises UsageError where there are none."""
    try:
        return make_pool(retries, read=read, ca=ca)
    except ssl.SSLError as error:
        raise UsageError("--s3-ca: the file holds no certificates", "it needs them as PEM") from error


def check(
    upstream: Upstream,
    agree: Callable[[str], None],
    *,
    pool: PoolManager | None = None,
    clock: Clock = MONOTONIC,
) -> None:
    """Try out whether a lab can use it: the key may list, write, read and delete in the bucket, fast enough.

    A bucket that is missing is made unless `agree` raises, which gets that problem. `pool` is the urllib3
    pool to use. Raises StoreError, UsageError.
    """
    from lab.store.requests import SigningClient, reach

    own = upstream.pool(0, TRY_SECONDS) if pool is None else pool
    client = SigningClient(upstream.url, upstream.credentials, upstream.region, pool=own)
    answer, refusal = reach(client, upstream.bucket)
    if refusal is not None and answer.code != "NoSuchBucket":
        raise refusal
    if refusal is not None:
        agree(f"{upstream.url} has no bucket {upstream.bucket}")
        _make_bucket(client, upstream.bucket)
    _try_out(client, upstream.bucket)
    begin = clock()
    reach(client, upstream.bucket)
    if (took := clock() - begin) > HEALTH_SECONDS:
        raise StoreError(
            f"{upstream.url} takes {took:.1f} s to list the bucket {upstream.bucket}; a lab, which asks all "
            f"the time whether its store serves, gives it {HEALTH_SECONDS:g} s",
            "try again when the store is less busy, or use one that is nearer",
        )


def _make_bucket(client: SigningClient, bucket: str) -> None:
    where = f"<LocationConstraint>{client.region}</LocationConstraint>" if client.region != REGION else ""
    body = f"<CreateBucketConfiguration>{where}</CreateBucketConfiguration>".encode() if where else b""
    answer = client.ask("PUT", bucket, body=body)
    if answer.status != 200:
        raise StoreError(
            f"{client.endpoint_url} refuses to make the bucket {bucket}: {_words(answer)}",
            "have it made by whoever owns the store, or name another with --bucket",
        )


def _try_out(client: SigningClient, bucket: str) -> None:
    """Write, read and delete one object of its own. Raises StoreError for a key that may not."""
    path, data = f"{bucket}/{TRIED}/{secrets.token_hex(8)}", secrets.token_bytes(64)
    for method, body, wanted in (("PUT", data, 200), ("GET", b"", 200), ("DELETE", b"", 204)):
        answer = client.ask(method, path, body=body)
        if answer.status != wanted or (method == "GET" and answer.data != data):
            raise StoreError(
                f"{client.endpoint_url}: the key may list the bucket {bucket}, but {method} of an object "
                f"fails: {_words(answer)}",
                "give it the rights that docs/store.md names",
            )


def _words(answer: S3Reply) -> str:
    return f"HTTP {answer.status} {answer.code}".strip()
