"""What the stand-in S3 server holds, for Prometheus: at MinIO's address, by MinIO's names and token."""

from __future__ import annotations

import hmac

from werkzeug.wrappers import Response

from lab.host.secrets import minio_metrics_token
from lab.store.server.keys import Keyring, RefusalError

METRICS_PATH = "/minio/v2/metrics/cluster"


def check_token(keys: Keyring, authorization: str) -> None:
    """Refuse a header without the token that is made of a root key. Raises RefusalError."""
    tokens = [minio_metrics_token(key.credentials) for key in keys if not key.bucket]
    given = authorization.removeprefix("Bearer ").strip().encode(errors="replace")
    if not any(hmac.compare_digest(given, token.encode()) for token in tokens):
        raise RefusalError(403, "AccessDenied", "the metrics need the token that is made of the root key")


def answer(objects: int, size: int, free: int) -> Response:
    """The metrics in Prometheus' text format; `size` and `free` (on the store's disk) are in bytes."""
    figures = (
        ("minio_cluster_usage_object_total", "Total number of objects in a cluster", objects),
        ("minio_cluster_usage_total_bytes", "Total cluster usage in bytes", size),
        ("minio_cluster_capacity_usable_free_bytes", "Total free usable capacity online", free),
    )
    lines = [
        line
        for name, text, value in figures
        for line in (f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name} {value}")
    ]
    return Response("\n".join(lines) + "\n", content_type="text/plain; version=0.0.4; charset=utf-8")
