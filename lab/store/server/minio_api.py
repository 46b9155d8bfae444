"""The interfaces of MinIO that the stand-in S3 server has beside S3: disabling a key, and metrics."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from werkzeug.wrappers import Response

from lab.host.secrets import minio_metrics_token
from lab.store.server.keys import Key, Keyring, RefusalError

STATUS_PATH = "/minio/admin/v3/set-user-status"
METRICS_PATH = "/minio/v2/metrics/cluster"


def set_user_status(
    keys: Keyring, asks: Key, query: Mapping[str, Sequence[str]], *, presigned: bool
) -> Response:
    """Answer a verified request by `asks` to disable or enable a user's key; errors are JSON, as MinIO's."""
    if presigned:
        return _problem(403, "AccessDenied", "no presigned URL may do this: its query may not be signed")
    if asks.bucket:
        return _problem(403, "AccessDenied", "only the root key may do this")
    status = query.get("status", [""])[0]
    if status not in ("enabled", "disabled"):
        return _problem(400, "InvalidRequest", "the status must be enabled or disabled")
    if not keys.set_enabled(query.get("accessKey", [""])[0], status == "enabled"):
        return _problem(404, "XMinioAdminNoSuchUser", "there is no such user")
    return Response(status=200)


def _problem(status: int, code: str, message: str) -> Response:
    return Response(json.dumps({"Code": code, "Message": message}), status, mimetype="application/json")


@dataclass(frozen=True)
class StoreUsage:
    """The contents of a store. Sizes are in bytes."""

    objects: int
    size: int
    free: int
    """Bytes that are left on the disk that it writes to."""


def check_token(keys: Keyring, authorization: str) -> None:
    """Refuse a header without the token that is made of a root key. Raises RefusalError."""
    tokens = [minio_metrics_token(key.credentials) for key in keys if not key.bucket]
    given = authorization.removeprefix("Bearer ").strip().encode(errors="replace")
    if not any(hmac.compare_digest(given, token.encode()) for token in tokens):
        raise RefusalError(403, "AccessDenied", "the metrics need the token that is made of the root key")


def answer(usage: StoreUsage) -> Response:
    """The metrics in Prometheus' text format."""
    figures = (
        ("minio_cluster_usage_object_total", "Total number of objects in a cluster", usage.objects),
        ("minio_cluster_usage_total_bytes", "Total cluster usage in bytes", usage.size),
        ("minio_cluster_capacity_usable_free_bytes", "Total free usable capacity online", usage.free),
    )
    lines = [
        line
        for name, text, value in figures
        for line in (f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {value}")
    ]
    return Response("\n".join(lines) + "\n", content_type="text/plain; version=0.0.4; charset=utf-8")
