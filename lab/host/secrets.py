"""The secrets of a lab: generated once, kept in files that only their owner may read.

The object store has two keys. Its *root* key belongs to the store and to what sets it up; jobs, Jupyter and
labctl use the *training* key (`Secrets.store`), which reaches only the bucket `ray`.
"""

from __future__ import annotations

import base64
import configparser
import contextlib
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import ServiceError, UsageError
from lab.host.files import write_private
from lab.host.reading import SMALL, parse_json, read_bytes, read_text
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
    redis_password: str = field(default="", repr=False)
    """The password of the Redis that keeps the state of Ray's head, in a lab that has one."""


STORE_FILE = "s3.json"
"""The training key: {"access_key", "secret_key"}."""
AWS_FILE = "aws.ini"
"""The training key as an AWS shared-credentials file."""
ROOT_USER_FILE = "s3-root.user"
ROOT_PASSWORD_FILE = "s3-root.password"
METRICS_FILE = "s3-metrics.token"
"""The token by which Prometheus reads MinIO's metrics, made of the root key."""
RAY_FILE = "ray.token"
JUPYTER_FILE = "jupyter.token"
GRAFANA_FILE = "grafana.password"
REDIS_FILE = "redis.password"
REDIS_SETTINGS_FILE = "redis.conf"
"""The password in the form of Redis' settings."""

RANDOM_IN_SHELL = """random() { # bytes: as many random ones as hexadecimal digits, or the end
    text=$(od -An -v -N"$1" -tx1 /dev/urandom | tr -d ' \\n')
    [ "${#text}" -eq $((2 * $1)) ] || { echo "no random bytes: od or /dev/urandom is missing" >&2; exit 1; }
    printf %s "$text"
}"""
"""The function by which the scripts of an export make secrets; it never makes an empty one."""

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
    """Read the secrets in `folder`; generate those that are missing. Raises ServiceError for a damaged file.

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
        training = parse_key(read_text(store, SMALL))
        texts = {name: read_text(folder / name, SMALL).strip() for name in _GENERATED}
        if not all(texts.values()):
            raise ValueError("one is empty")
    except (OSError, ValueError) as error:
        hint = "`labctl down`, remove that folder, then `labctl up`"
        raise ServiceError(f"the secrets in {folder} cannot be read ({error})", hint) from error
    root = Credentials(texts[ROOT_USER_FILE], texts[ROOT_PASSWORD_FILE])
    _keep(folder / METRICS_FILE, minio_metrics_token(root))
    _keep(folder / AWS_FILE, aws_credentials_file(training))
    _keep(folder / REDIS_SETTINGS_FILE, f"requirepass {texts[REDIS_FILE]}\n")
    return Secrets(
        store=training,
        ray_token=texts[RAY_FILE],
        jupyter_token=texts[JUPYTER_FILE],
        root=root,
        grafana_password=texts[GRAFANA_FILE],
        redis_password=texts[REDIS_FILE],
    )


def files(folder: Path) -> list[Path]:
    """The secret files in `folder`, once they were made."""
    names = [STORE_FILE, AWS_FILE, METRICS_FILE, REDIS_SETTINGS_FILE, *_GENERATED]
    return [folder / name for name in names]


def parse_key(text: str, profile: str = "default") -> Credentials:
    """The key in the lab's own JSON, or in a section of an AWS shared-credentials file. Raises ValueError."""
    try:
        if text.lstrip().startswith("{"):
            document = parse_json(text)
            key = Credentials(document["access_key"], document["secret_key"])
        else:
            parser = configparser.ConfigParser(interpolation=None)
            parser.read_string(text)
            key = Credentials(parser[profile]["aws_access_key_id"], parser[profile]["aws_secret_access_key"])
    except (KeyError, TypeError, configparser.Error) as error:
        raise ValueError("a part of the key is missing") from error
    if not all(isinstance(half, str) and half for half in (key.access_key, key.secret_key)):
        raise ValueError("one of its two parts is empty, or not text")
    return key


def read_key(path: Path, hint: str = "", profile: str = "default") -> Credentials:
    """The key in such a file. Raises UsageError; `hint` says what to do about a file that cannot be read."""
    text = read_secret(path, hint)
    try:
        return parse_key(text, profile)
    except ValueError as error:
        raise UsageError(
            f"{path} holds no key ({error})",
            f'it needs {{"access_key": ..., "secret_key": ...}}, or the section [{profile}] of an AWS file',
        ) from None


def read_secret(path: Path, hint: str = "") -> str:
    """The text in a small file, without white space around it. Raises UsageError, also for an empty one."""
    try:
        text = read_text(path, SMALL).strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {getattr(error, 'strerror', error)}", hint) from error
    if not text:
        raise UsageError(f"{path} is empty", hint)
    return text


def key_from(environ: Mapping[str, str], hint: str = "", profile: str = "default") -> Credentials | None:
    """The key that AWS's variables give: both halves, or the file that holds them. Raises UsageError."""
    key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        return Credentials(key, secret)
    path = environ.get("AWS_SHARED_CREDENTIALS_FILE")
    return read_key(Path(path), hint, profile) if path else None


def aws_credentials_file(key: Credentials) -> str:
    """The text of an AWS shared-credentials file, for pyarrow, boto3 and the AWS tools."""
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
