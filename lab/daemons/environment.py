"""Configuration of the services by environment variables.

| variable | says |
| --- | --- |
| RAY_API_SERVER_ADDRESS | Ray's dashboard |
| RAY_AUTH_TOKEN_PATH | the file that holds Ray's token |
| AWS_ENDPOINT_URL | the object store |
| AWS_SHARED_CREDENTIALS_FILE | the file that holds its key, or: |
| AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY | its key |
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lab.cluster.api import RayApi
from lab.errors import UsageError
from lab.host.secrets import key_from, read_secret
from lab.store import ObjectStore
from lab.topology import REGION, Credentials


def required(environ: Mapping[str, str], name: str) -> str:
    """The value of a variable. Raises UsageError when it is not set."""
    value = environ.get(name, "")
    if not value:
        raise UsageError(f"{name} is not set", "services of a lab are configured by their environment")
    return value


def credentials(environ: Mapping[str, str]) -> Credentials:
    """The key of the object store, from the environment or the file it names. Raises UsageError."""
    return key_from(environ, "AWS_SHARED_CREDENTIALS_FILE names it") or Credentials(
        required(environ, "AWS_ACCESS_KEY_ID"), required(environ, "AWS_SECRET_ACCESS_KEY")
    )


def ray_token(environ: Mapping[str, str]) -> str:
    """Ray's token, empty where no file is named. Raises UsageError."""
    path = environ.get("RAY_AUTH_TOKEN_PATH")
    return read_secret(Path(path), "RAY_AUTH_TOKEN_PATH names the file of Ray's token") if path else ""


def ray(environ: Mapping[str, str]) -> RayApi:
    """Ray's HTTP APIs; nothing is asked yet. Raises UsageError."""
    return RayApi(required(environ, "RAY_API_SERVER_ADDRESS"), ray_token(environ))


def object_store(environ: Mapping[str, str]) -> ObjectStore:
    """The object store; nothing is asked yet. Raises UsageError."""
    return ObjectStore(required(environ, "AWS_ENDPOINT_URL"), credentials(environ), REGION)
