"""Checks of a request before moto sees it, and the words in which moto is asked."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence

from lab.host.serving import Environ
from lab.store.server.keys import COPY_SOURCE, SETTINGS, RefusalError

KEPT_SUBRESOURCES = frozenset({"uploads", "uploadId", "partNumber", "delete", "x-id"})
"""Query parameters a change may have: the others name settings that this store would not keep."""

NUMBERS = frozenset({"max-keys", "max-parts", "max-uploads", "part-number-marker", "partNumber"})
"""Query parameters that are numbers."""

NOT_IN_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write, and the carriage return, which comes back as a line feed."""

KEY_BYTES = 1024
METADATA_BYTES = 2048
DELETED_AT_ONCE = 1000

LOST_HEADERS = ("HTTP_X_AMZ_TAGGING", "HTTP_X_AMZ_OBJECT_LOCK_", "HTTP_X_AMZ_SERVER_SIDE_ENCRYPTION")

STORAGE_CLASSES = ("STANDARD", "REDUCED_REDUNDANCY")
"""Others would be archives, whose objects cannot be read at once."""

BUCKET_SETTINGS = SETTINGS - {"policyStatus", "requestPayment"}
"""Settings of a bucket that moto answers; for those two it would list the bucket."""

COPY_IF_MATCH = f"{COPY_SOURCE}_IF_MATCH"
COPY_TIMES = (f"{COPY_SOURCE}_IF_MODIFIED_SINCE", f"{COPY_SOURCE}_IF_UNMODIFIED_SINCE")

CHECKSUM = "HTTP_X_AMZ_CHECKSUM_"
NO_CHECKSUMS = {f"{CHECKSUM}{name}" for name in ("ALGORITHM", "MODE", "TYPE")}
SDK_ALGORITHM = "HTTP_X_AMZ_SDK_CHECKSUM_ALGORITHM"


def check_query(query: Mapping[str, Sequence[str]]) -> None:
    """Refuse a parameter that is ambiguous, or no value of its kind. Raises RefusalError."""
    for name, values in query.items():
        if len(values) > 1:
            raise RefusalError(400, "InvalidArgument", f"{name} is given more than once")
        if name in NUMBERS and not re.fullmatch(r"[0-9]{1,9}", values[0]):
            raise RefusalError(400, "InvalidArgument", f"{name} must be a whole number below a billion")
    if int(query.get("partNumber", ["1"])[0]) == 0:
        raise RefusalError(400, "InvalidArgument", "partNumber counts from 1")
    if query.get("encoding-type", ["url"])[0] not in ("url", ""):
        raise RefusalError(400, "InvalidArgument", "encoding-type can only be url")


def check_asked(key: str, query: set[str]) -> None:
    """Refuse a setting that this store has not: moto would answer something else. Raises RefusalError."""
    unknown = sorted(query & (SETTINGS if key else SETTINGS - BUCKET_SETTINGS))
    if unknown:
        raise RefusalError(501, "NotImplemented", f"this store does not have: {', '.join(unknown)}")


def check_keepable(environ: Environ, bucket: str, key: str, query: set[str]) -> None:
    """Refuse a change whose names or headers S3 would not take, or moto would forget. Raises RefusalError."""
    if not _is_bucket_name(bucket):
        raise RefusalError(400, "InvalidBucketName", f"not a bucket's name: {bucket}")
    if len(key.encode(errors="surrogateescape")) > KEY_BYTES:
        raise RefusalError(400, "KeyTooLongError", f"a key has at most {KEY_BYTES} bytes")
    if environ["REQUEST_METHOD"] != "DELETE" and NOT_IN_XML.search(key):
        what = "the key has a character that no listing in XML can show; none of the bucket could be read"
        raise RefusalError(400, "InvalidArgument", what)
    lost = sorted(query - KEPT_SUBRESOURCES)
    lost += [n[5:].replace("_", "-").lower() for n in environ if n.startswith((*LOST_HEADERS, *COPY_TIMES))]
    if lost:
        raise RefusalError(501, "NotImplemented", f"this store does not keep: {', '.join(lost)}")
    if environ.get("HTTP_X_AMZ_STORAGE_CLASS", "STANDARD") not in STORAGE_CLASSES:
        raise RefusalError(400, "InvalidStorageClass", f"a storage class is {' or '.join(STORAGE_CLASSES)}")
    metadata = {name: value for name, value in environ.items() if name.startswith("HTTP_X_AMZ_META_")}
    if sum(len(name) + len(value) for name, value in metadata.items()) > METADATA_BYTES:
        raise RefusalError(400, "MetadataTooLarge", f"metadata have at most {METADATA_BYTES} bytes")
    if environ.get("HTTP_X_AMZ_METADATA_DIRECTIVE", "COPY") not in ("COPY", "REPLACE"):
        raise RefusalError(400, "InvalidArgument", "x-amz-metadata-directive is COPY or REPLACE")


def _is_bucket_name(name: str) -> bool:
    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", name) or re.search(r"\.\.|\.-|-\.", name):
        return False
    return re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", name) is not None


def say_checksum(environ: Environ) -> None:
    """Tell moto which checksum was sent, which it keeps only then. Raises RefusalError for two of them."""
    sent = [name for name in environ if name.startswith(CHECKSUM) and name not in NO_CHECKSUMS]
    environ.pop(SDK_ALGORITHM, None)
    if len(sent) > 1:
        raise RefusalError(400, "InvalidArgument", "a request may have one x-amz-checksum- header")
    if sent:
        environ[SDK_ALGORITHM] = sent[0].removeprefix(CHECKSUM)


def say_conditions(environ: Environ, etag: str) -> None:
    """Say `If-Match` and `If-None-Match` as moto knows them; `etag` is the object's, empty without one.

    moto knows `*` only in one of them, and in some requests an ETag only with its quotation marks.
    """
    reads = environ["REQUEST_METHOD"] in ("GET", "HEAD")
    for name in ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"):
        if etag and environ.get(name, "").strip().strip('"') in ("*", etag):
            environ[name] = f'"{etag}"' if reads or name == "HTTP_IF_MATCH" else "*"


def check_copied(environ: Environ, etag: str) -> None:
    """Refuse a copy from another source than asked for; moto does not look. Raises RefusalError."""
    wanted = environ.get(COPY_IF_MATCH, "").strip().strip('"')
    if wanted and etag and wanted not in ("*", etag):
        raise RefusalError(412, "PreconditionFailed", "x-amz-copy-source-if-match: it is another object")


def read_range(header: str, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last of `Range`; None for the whole object. Raises RefusalError."""
    match = re.fullmatch(r"bytes=([0-9]*)-([0-9]*)", header.strip())
    if match is None or match[0] == "bytes=-":
        return None
    if match[1]:
        start, end = int(match[1]), min(int(match[2]) + 1 if match[2] else size, size)
    else:
        start, end = max(size - int(match[2]), 0), size
    if start >= end:
        raise RefusalError(416, "InvalidRange", "the range has no byte of the object")
    return start, end


def deletes_quietly(body: bytes) -> bool:
    """True if a deletion of many wants to know of errors only. Raises RefusalError for none or too many."""
    try:
        document = ET.fromstring(body)
    except ET.ParseError as error:
        raise RefusalError(400, "MalformedXML", "the body is not XML") from error
    parts = [(part.tag.rpartition("}")[2], (part.text or "").strip()) for part in document]
    count = sum(name == "Object" for name, _ in parts)
    if not 0 < count <= DELETED_AT_ONCE:
        raise RefusalError(400, "MalformedXML", f"1 to {DELETED_AT_ONCE} objects, and not {count}")
    return ("Quiet", "true") in parts


def without_deleted(answer: bytes) -> bytes:
    """The answer to a deletion of many, without what was deleted."""
    return re.sub(rb"<Deleted>.*?</Deleted>", b"", answer, flags=re.DOTALL)
