"""The one command of MinIO's admin API that the stand-in S3 server knows: disable or enable a user's key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from werkzeug.wrappers import Response

from lab.store.server.keys import Key, Keyring

STATUS_PATH = "/minio/admin/v3/set-user-status"


def set_user_status(
    keys: Keyring, asks: Key, query: Mapping[str, Sequence[str]], *, presigned: bool
) -> Response:
    """The answer to a verified request by `asks`; MinIO's admin API says what is wrong in JSON."""
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
