"""The secrets of a lab: generated once, kept in files that only their owner may read.

The object store has two keys. Its *root* key belongs to the store and to what sets it up; the *training* key
(`Secrets.store`) is what jobs, Jupyter and labctl use, and reaches only the bucket `ray`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import ServiceError, SetupError
from lab.host.files import write_private
from lab.host.reading import SMALL, read_bytes, read_json, read_text
from lab.topology import Credentials


@dataclass(frozen=True)
class Secrets:
    """The keys and tokens of one lab."""

    store: Credentials
    """The training key: it may reach only the bucket `ray`."""
    ray_token: str = field(repr=False)
    jupyter_token: str = field(repr=False)
    root: Credentials
    """The key of the object store's owner."""
    grafana_password: str = field(repr=False)
    s3_metrics_token: str = field(repr=False)
    """What Prometheus shows to MinIO, made of the root key."""
    redis_password: str = field(default="", repr=False)
    """Of the Redis that keeps the state of Ray's head, in a lab that has one."""


STORE_FILE = "s3.json"
"""The training key: {"access_key", "secret_key"}."""
AWS_FILE = "aws.ini"
"""The training key as an AWS shared-credentials file."""
ROOT_USER_FILE = "s3-root.user"
ROOT_PASSWORD_FILE = "s3-root.password"
METRICS_FILE = "s3-metrics.token"
RAY_FILE = "ray.token"
JUPYTER_FILE = "jupyter.token"
GRAFANA_FILE = "grafana.password"
REDIS_FILE = "redis.password"
REDIS_SETTINGS_FILE = "redis.conf"
"""The password as Redis' own settings say it."""

METRICS_EXPIRY = 4_891_363_200
"""Seconds since the epoch, 2125-01-01: `mc admin prometheus generate` gives its tokens 100 years, too."""

_GENERATED = {
    RAY_FILE: 32,
    JUPYTER_FILE: 32,
    ROOT_USER_FILE: 10,
    ROOT_PASSWORD_FILE: 20,  # MinIO takes at most 20 characters of access key and 40 of secret key
    GRAFANA_FILE: 16,
    REDIS_FILE: 24,
}
"""File -> random bytes in it, written as hexadecimal digits."""


def load_or_make(folder: Path) -> Secrets:
    """The secrets in `folder`; what is missing is generated. Raises ServiceError when a file is damaged.

    The files that follow from others (`aws.ini`, `s3-metrics.token`, `redis.conf`) are brought up to date. A
    folder that knew only one key of the store keeps it as its training key.
    """
    store = folder / STORE_FILE
    if not store.exists():
        key = {"access_key": secrets.token_hex(10), "secret_key": secrets.token_hex(20)}
        write_private(store, json.dumps(key))
    for name, size in _GENERATED.items():
        if not (folder / name).exists():
            write_private(folder / name, secrets.token_hex(size))
    try:
        document = read_json(store, SMALL)
        training = Credentials(str(document["access_key"]), str(document["secret_key"]))
        texts = {name: read_text(folder / name, SMALL).strip() for name in _GENERATED}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, str(error)) from error
    if not all((training.access_key, training.secret_key, *texts.values())):
        raise _damaged(folder, "one is empty")
    root = Credentials(texts[ROOT_USER_FILE], texts[ROOT_PASSWORD_FILE])
    metrics_token = minio_metrics_token(root)
    _keep(folder / METRICS_FILE, metrics_token)
    _keep(folder / AWS_FILE, aws_credentials_file(training))
    _keep(folder / REDIS_SETTINGS_FILE, f"requirepass {texts[REDIS_FILE]}\n")
    return Secrets(
        store=training,
        ray_token=texts[RAY_FILE],
        jupyter_token=texts[JUPYTER_FILE],
        root=root,
        grafana_password=texts[GRAFANA_FILE],
        s3_metrics_token=metrics_token,
        redis_password=texts[REDIS_FILE],
    )


def hand_over(folder: Path, uid: int, gid: int) -> None:
    """Make another user the owner of the secret files: containers run as that user. Raises SetupError."""
    try:
        names = (STORE_FILE, AWS_FILE, METRICS_FILE, REDIS_SETTINGS_FILE, *_GENERATED)
        for file in (folder / name for name in names):
            if file.stat().st_uid != uid or file.stat().st_gid != gid:
                os.chown(file, uid, gid)
    except OSError as error:
        message = f"cannot give {error.filename or folder} to user {uid}: {error.strerror}"
        raise SetupError(message, "run labctl as the owner of that folder") from error


def aws_credentials_file(key: Credentials) -> str:
    """What AWS_SHARED_CREDENTIALS_FILE names, for pyarrow, boto3 and the AWS tools."""
    return f"[default]\naws_access_key_id = {key.access_key}\naws_secret_access_key = {key.secret_key}\n"


def minio_metrics_token(root: Credentials) -> str:
    """The bearer token of MinIO's metrics: a JSON Web Token as `mc admin prometheus generate` makes it."""
    claims = {"exp": METRICS_EXPIRY, "sub": root.access_key, "iss": "prometheus"}
    parts = ({"alg": "HS512", "typ": "JWT"}, claims)
    signed = b".".join(_base64url(json.dumps(part).encode()) for part in parts)
    signature = hmac.new(root.secret_key.encode(), signed, hashlib.sha512).digest()
    return (signed + b"." + _base64url(signature)).decode()


def _base64url(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _keep(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        if read_bytes(path) == text.encode():
            return
    write_private(path, text)


def _damaged(folder: Path, why: str) -> ServiceError:
    hint = "`labctl down`, remove that folder, then `up`"
    return ServiceError(f"the secrets in {folder} cannot be read ({why})", hint)
