"""The keys of the stand-in S3 server, and what each may do.

The root key may do everything. A key with a bucket is what MinIO's policy makes of the lab's training key: it
reads, writes, lists and deletes in its bucket, and sees no other. It cannot make or remove a bucket.
"""

from __future__ import annotations

import hmac
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote

from lab.host.serving import Environ
from lab.people.rights import KeyRights
from lab.topology import Credentials

COPY_SOURCE = "HTTP_X_AMZ_COPY_SOURCE"

SETTINGS = frozenset(
    {
        *("accelerate", "acl", "cors", "encryption", "lifecycle", "logging", "notification", "object-lock"),
        *("ownershipControls", "policy", "policyStatus", "publicAccessBlock", "replication"),
        *("requestPayment", "tagging", "versioning", "website"),
        *("attributes", "legal-hold", "restore", "retention", "select", "torrent"),
    }
)
"""Query parameters that name settings of a bucket or of an object, or something else than its data."""


class RefusalError(Exception):
    """A request is refused; the answer is an S3 error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True)
class Key:
    """A key that the server accepts."""

    credentials: Credentials
    bucket: str = ""
    """The one bucket it may use; empty when it may do everything."""
    rights: KeyRights | None = None
    """The part of that bucket that it reaches; None for all of it."""


class Keyring:
    """Every key that the server accepts."""

    def __init__(self, *keys: Key) -> None:
        self._keys = keys
        self._disabled: set[str] = set()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def find(self, access_key: str) -> Key | None:
        """The key of this name, unless it is disabled. Takes the same time for every name that is none."""
        match = None
        for key in self._keys:
            if hmac.compare_digest(access_key.encode(), key.credentials.access_key.encode()):
                match = key
        return None if match is None or match.credentials.access_key in self._disabled else match

    def get(self, access_key: str) -> Key:
        """`find`, of a key that must be there. Raises RefusalError."""
        key = self.find(access_key)
        if key is None:
            raise RefusalError(403, "InvalidAccessKeyId", "this store knows no such access key")
        return key

    def set_status(self, access_key: str, status: str) -> None:
        """Refuse a key that is kept to a bucket (`disabled`), or accept it again, until the process ends.

        Raises RefusalError.
        """
        if status not in ("enabled", "disabled"):
            raise RefusalError(400, "InvalidRequest", "the status must be enabled or disabled")
        if access_key not in {key.credentials.access_key for key in self._keys if key.bucket}:
            raise RefusalError(404, "XMinioAdminNoSuchUser", "there is no such user")
        change = self._disabled.discard if status == "enabled" else self._disabled.add
        change(access_key)


def check_allowed(key: Key, method: str, bucket: str, name: str, query: set[str], source: str) -> None:
    """Refuse what `key` may not do. Raises RefusalError.

    `bucket` and `name` (of the object) are empty where the request names none, `source` is the bucket that is
    copied from.
    """
    if not key.bucket or (not bucket and method in ("GET", "HEAD")):
        return
    on_bucket = not name and (method in ("GET", "HEAD") or (method == "POST" and "delete" in query))
    elsewhere = bucket != key.bucket or source not in ("", key.bucket)
    if elsewhere or not (name or on_bucket) or query & SETTINGS:
        raise RefusalError(403, "AccessDenied", "Access Denied.")


def copied_from(environ: Environ) -> tuple[str, str]:
    """Bucket and object that a request copies from; empty when it copies nothing. Raises RefusalError."""
    header = str(environ.get(COPY_SOURCE, ""))
    if not header:
        return "", ""
    path, _, version = header.partition("?")
    bucket, slash, name = unquote(path).removeprefix("/").partition("/")
    if not (slash and name and re.fullmatch(r"[A-Za-z0-9.-]+", bucket)):
        raise RefusalError(400, "InvalidArgument", "the copy source must be BUCKET/KEY")
    if version not in ("", "versionId=null"):
        raise RefusalError(404, "NoSuchVersion", "this store keeps no versions")
    return bucket, name


def as_header(bucket: str, name: str) -> str:
    """A copy source that can be read in one way only."""
    return f"/{bucket}/{quote(name)}"


def only_bucket(listing: bytes, bucket: str) -> bytes:
    """The list of buckets without all others."""
    root = ET.fromstring(listing)
    namespace = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    for buckets in root.iter(f"{namespace}Buckets"):
        for element in list(buckets):
            if element.findtext(f"{namespace}Name") != bucket:
                buckets.remove(element)
    return bytes(
        ET.tostring(root, encoding="utf-8", xml_declaration=True, default_namespace=namespace[1:-1] or None)
    )
