"""MinIO itself, for the tests with the mark `minio`."""

from __future__ import annotations

import shutil

from tests.go_programs import MINIO


def minio_program() -> str:
    """Path of the release that labctl has built, else of a `minio` on PATH; empty where there is neither."""
    return str(MINIO.path) if MINIO.path.is_file() else shutil.which("minio") or ""
