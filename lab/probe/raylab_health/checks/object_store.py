"""The object store's round trip: PUT, GET, comparison by SHA-256, DELETE."""

from __future__ import annotations

import configparser
import hashlib
import io
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from raylab_health.model import CPU, NODE, PASS, WARN, Check, Context, Finding, NotHereError, UnreadableError

BUCKET, PREFIX = "ray", ".raylab/health"
BYTES = 4096
NO_BUCKET = "NoSuchBucket"
"""S3's word; a lab that starts makes its bucket while its first nodes start."""
SLOW_SECONDS = 5.0
TRIES, PAUSE_SECONDS = 3, 8.0
"""A store that starts again, or is away for ten seconds as in a fault, is no sick node."""


def run(context: Context, device: str = CPU) -> Finding:
    """WARN when what comes back is not what was sent, when it is slow, or when it fails, several times."""
    client = context.notes.get("object-store")
    if client is None:
        client = context.notes["object-store"] = connect(context.environ)
    name = f"{PREFIX}/{context.environ.get('RAYLAB_SERVICE_NAME', 'node')}"
    finding = round_trip(context, client, name, os.urandom(BYTES))
    for _ in range(TRIES - 1):
        if finding.state == PASS:
            break
        context.sleep(PAUSE_SECONDS)
        finding = round_trip(context, client, name, os.urandom(BYTES))
    return finding


def round_trip(context: Context, client: Any, name: str, data: bytes) -> Finding:
    """Write, read and delete one object with this client of the package minio."""
    begin = context.monotonic()
    try:
        client.put_object(BUCKET, name, io.BytesIO(data), len(data))
        answer = client.get_object(BUCKET, name)
        try:
            back = answer.read()
        finally:
            answer.close()
            answer.release_conn()
        client.remove_object(BUCKET, name)
    except Exception as error:  # those of minio, of urllib3 and of the socket
        code = getattr(error, "code", "")
        if code == NO_BUCKET and not context.notes.get(BUCKET):
            raise UnreadableError("the lab's bucket is not made yet") from error
        reason = code if isinstance(code, str) and code else " ".join(str(error).split())[:150]
        return Finding(WARN, None, "ms", f"the object store fails: {reason}")
    context.notes[BUCKET] = True
    took = context.monotonic() - begin
    message = ""
    if hashlib.sha256(back).digest() != hashlib.sha256(data).digest():
        message = "what the object store gives back is not what was sent"
    elif took > SLOW_SECONDS:
        message = f"a round trip to the object store takes {took:.1f} s"
    return Finding(WARN if message else PASS, round(took * 1000, 3), "ms", message)


def connect(environ: Mapping[str, str]) -> Any:
    """A client of the lab's object store. Raises NotHereError."""
    try:
        import minio
        import urllib3
    except ImportError as error:
        raise NotHereError("the package minio is not installed") from error
    parts = urlsplit(environ.get("AWS_ENDPOINT_URL", ""))
    if not parts.netloc:
        raise NotHereError("AWS_ENDPOINT_URL names no object store")
    access, secret = key(environ)
    pool = urllib3.PoolManager(timeout=urllib3.Timeout(SLOW_SECONDS), retries=False)
    return minio.Minio(
        parts.netloc,
        access_key=access,
        secret_key=secret,
        region=environ.get("AWS_REGION", "us-east-1"),
        secure=parts.scheme == "https",
        http_client=pool,
    )


def key(environ: Mapping[str, str]) -> tuple[str, str]:
    """The key of the object store, from the environment or the file it names. Raises UnreadableError."""
    if environ.get("AWS_ACCESS_KEY_ID"):
        return environ["AWS_ACCESS_KEY_ID"], environ.get("AWS_SECRET_ACCESS_KEY", "")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(environ.get("AWS_SHARED_CREDENTIALS_FILE", ""), encoding="utf-8")
        return parser["default"]["aws_access_key_id"], parser["default"]["aws_secret_access_key"]
    except (configparser.Error, KeyError, OSError) as error:
        raise UnreadableError(f"there is no key for the object store: {error}") from error


CHECK = Check("object-store", NODE, 60.0, run, deadline=60.0)
