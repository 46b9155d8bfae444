"""What the stand-in S3 server tells Prometheus: some of MinIO's metrics, at its path, behind its token."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from werkzeug.wrappers import Response

from lab.host.secrets import minio_metrics_token
from lab.store.server.keys import Keyring
from lab.store.server.refusal import RefusalError

METRICS_PATH = "/minio/v2/metrics/cluster"


@dataclass(frozen=True)
class Usage:
    """How much a store holds. Sizes are in bytes."""

    buckets: int
    objects: int
    size: int
    free: int
    """Left on the disk that it writes to."""


def check_token(keys: Keyring, authorization: str) -> None:
    """Raises RefusalError unless the header carries the token that is made of a root key."""
    tokens = [minio_metrics_token(key.credentials) for key in keys if not key.bucket]
    given = authorization.removeprefix("Bearer ").strip().encode(errors="replace")
    if not any(hmac.compare_digest(given, token.encode()) for token in tokens):
        raise RefusalError(403, "AccessDenied", "the metrics need the token that is made of the root key")


def answer(usage: Usage) -> Response:
    """The metrics in Prometheus' text format."""
    figures = (
        ("minio_cluster_bucket_total", "Total number of buckets in the cluster", usage.buckets),
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
