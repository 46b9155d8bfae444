"""The checks of `doctor --s3`: whether an S3 server, of whatever make, does what a lab asks of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError, StoreError, UsageError
from lab.flows.doctor import open_lab
from lab.host.http import POOL_READ_SECONDS
from lab.host.secrets import key_from, read_key
from lab.topology import REGION, Check, Credentials, Endpoints

if TYPE_CHECKING:
    from urllib3 import PoolManager

    from lab.store.conformance import Question

HOW = "give it with --s3-credentials FILE, or in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


def find_key(
    url: str,
    file: Path | None,
    environment: Mapping[str, str],
    endpoints: Callable[[], Endpoints | None],
) -> Credentials:
    """The key for the store at `url`: of the file, the environment, or of the lab whose store it is.

    Raises UsageError when there is none.
    """
    profile = environment.get("AWS_PROFILE", "") or "default"
    if file is not None:
        return read_key(file, HOW, profile)
    if key := key_from(environment, HOW, profile):
        return key
    lab = endpoints()
    if lab is not None and lab.s3.rstrip("/") == url.rstrip("/"):
        return lab.credentials
    raise UsageError(f"no key for the object store at {url}", HOW)


def store_checks(
    url: str,
    bucket: str,
    file: Path | None = None,
    ca_file: Path | None = None,
    *,
    endpoints: Callable[[], Endpoints | None] = lambda: None,
    environment: Mapping[str, str] = os.environ,
    questions: tuple[Question, ...] | None = None,
    http: PoolManager | None = None,
) -> tuple[Check, ...]:
    """Every question of `lab.store.conformance`, asked of the bucket at `url`.

    `ca_file` has certificates that vouch for the store's own, `endpoints` tells where the running lab is, if
    there is one; `http` is the urllib3 pool to use. Raises UsageError for an address or a key that is none.
    """
    from lab.store.conformance import QUESTIONS, SigningClient, examine
    from lab.store.s3 import RETRIES
    from lab.store.upstream import pool_for, read_certificates

    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or REGION
    try:
        SigningClient(url, Credentials("", ""))
    except StoreError as error:
        raise UsageError(f"--s3 {error.message}", error.hint) from error
    key = find_key(url, file, environment, endpoints)
    pool = http or pool_for(read_certificates(ca_file), RETRIES, POOL_READ_SECONDS)
    client = SigningClient(url, key, region, ca_file=ca_file, pool=pool)
    return tuple(examine(client, bucket, questions=QUESTIONS if questions is None else questions))


def endpoints_of(lab: str, runtime: str) -> Endpoints | None:
    """Addresses of the lab of that name, or None while it is down or does not answer."""
    try:
        return open_lab(runtime, lab).endpoints()
    except LabError:
        return None
