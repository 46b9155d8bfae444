"""Sets an object store up for a lab: the bucket, and a training key that reaches nothing else.

    python -m lab.store.setup

AWS_ENDPOINT_URL says where the store is; LAB_S3_ROOT_USER_FILE, LAB_S3_ROOT_PASSWORD_FILE and
LAB_S3_TRAINING_KEY_FILE say where the keys are, by default where Compose puts secrets. It can be run again at
any time: what is there stays, a changed training key replaces the old one. The exit code is 0 or that of the
error, and the last line says what went wrong.

With MinIO and its forks the key is made through their admin API. The stand-in gets its keys on
its command line; any other store needs a person who makes the key. In the end it is tried out: it must
reach its bucket and no other.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import LabError, StoreError, UsageError, WaitTimeoutError
from lab.host.clock import MONOTONIC, Clock, settle
from lab.host.secrets import read_key, read_secret
from lab.store.admin import MinioAdministration
from lab.store.base import LOG_HINT, AccessDeniedError, NoAdminApiError, Store, UnreachableStoreError
from lab.store.s3 import ObjectStore
from lab.topology import BUCKET, REGION, Credentials

if TYPE_CHECKING:
    from urllib3 import PoolManager

POLICY = "raylab-training"

WAIT_SECONDS = 60.0
"""Timeout for the store's first answer. Measured on 2 cores: the stand-in needs 2 s."""

SAY_SECONDS = 5.0

STAND_IN = "moto"
"""First word of the name that the stand-in gives itself."""

SECRETS = "/run/secrets"
ROOT_USER, ROOT_PASSWORD, KEY = (
    "LAB_S3_ROOT_USER_FILE",
    "LAB_S3_ROOT_PASSWORD_FILE",
    "LAB_S3_TRAINING_KEY_FILE",
)


def training_policy(bucket: str) -> dict[str, Any]:
    """The rights of the training key: to use the objects of its bucket, and to make no keys of itself."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"],
                "Resource": [f"arn:aws:s3:::{bucket}"],
            },
            {
                "Effect": "Allow",
                "Action": [
                    "s3:AbortMultipartUpload",
                    "s3:DeleteObject",
                    "s3:GetObject",
                    "s3:ListMultipartUploadParts",
                    "s3:PutObject",
                ],
                "Resource": [f"arn:aws:s3:::{bucket}/*"],
            },
            {"Effect": "Deny", "Action": ["admin:CreateServiceAccount"]},
        ],
    }


def wait_for(
    store: Store, say: Callable[[str], None], *, seconds: float = WAIT_SECONDS, clock: Clock = MONOTONIC
) -> str:
    """Wait until the store answers; returns the name that it gives itself.

    Raises WaitTimeoutError after `seconds`, and StoreError at once when it answers but refuses the key.
    """
    said = clock()

    def ask() -> str | UnreachableStoreError:
        nonlocal said
        try:
            return store.ping()
        except UnreachableStoreError as error:
            if clock() - said >= SAY_SECONDS:
                said = clock()
                say(f"waiting for the object store: {error.message}")
            return error

    answer = settle(ask, lambda reply: isinstance(reply, str), timeout=seconds, clock=clock)
    if isinstance(answer, str):
        return answer
    raise WaitTimeoutError(
        f"the object store does not answer after {seconds:g} s: {answer.message}", LOG_HINT
    ) from answer


def set_up(
    server: str, root: Store, training: Store, key: Credentials, admin: MinioAdministration
) -> tuple[str, ...]:
    """Make what the lab needs in the store that calls itself `server`; returns what was done, a line each.

    `root` and `training` are the lab's bucket as the two keys see it; `key` is the training key. Raises
    StoreError.
    """
    done = [f"bucket {root.bucket}: {'made' if root.ensure_bucket() else 'there already'}"]
    if server.startswith(STAND_IN):
        done.append("training key: the server has it from its own command line")
    else:
        done += _make_key(root.bucket, training, key, admin)
    _try_out(training)
    done.append(f"training key: tried out, it reaches the bucket {root.bucket} and no other")
    return tuple(done)


def _make_key(bucket: str, training: Store, key: Credentials, admin: MinioAdministration) -> list[str]:
    worked = _works(training)
    try:
        admin.put_policy(POLICY, training_policy(bucket))
    except NoAdminApiError as error:
        if not worked:
            raise
        return [f"training key: accepted already; not touched, since {error.message}"]
    admin.put_user(key, POLICY)
    done = [
        f"policy {POLICY}: written",
        f"training key: {'there already, written again' if worked else 'made'}, with the policy {POLICY}",
    ]
    for stale in admin.users_with(POLICY):
        if stale != key.access_key:
            admin.remove_user(stale)
            done.append("training key: a former one was removed")
    return done


def _works(training: Store) -> bool:
    try:
        training.list("never/")
    except StoreError:
        return False
    return True


def _try_out(training: Store) -> None:
    training.list("never/")
    other = training.in_bucket(f"{training.bucket}-{secrets.token_hex(4)}")
    try:
        other.list()
    except AccessDeniedError:
        return
    except StoreError as error:
        why = error.message
    else:
        why = "it was let in"
    raise StoreError(
        f"the training key is not kept to the bucket {training.bucket}: asked for another, {why}",
        f"give it the policy of docs/store.md, or remove {KEY} and make a new one",
    )


def main(
    environment: Mapping[str, str] = os.environ,
    *,
    say: Callable[[str], None] | None = None,
    http: PoolManager | None = None,
    clock: Clock = MONOTONIC,
) -> int:
    """`python -m lab.store.setup`; returns the exit code. `http` is the urllib3 pool to use."""
    say = say or _say
    try:
        url = environment.get("AWS_ENDPOINT_URL", "")
        if not url:
            raise UsageError("AWS_ENDPOINT_URL is not set", "it is the store's address, http://host:port")
        root = Credentials(
            read_secret(*_file(environment, ROOT_USER, "s3-root.user")),
            read_secret(*_file(environment, ROOT_PASSWORD, "s3-root.password")),
        )
        key = read_key(*_file(environment, KEY, "s3.json"))
        region = environment.get("AWS_REGION", REGION)
        for line in run(url, root, key, region, say=say, http=http, clock=clock):
            say(line)
    except LabError as error:
        hint = f" ({error.hint})" if error.hint else ""
        say(f"the object store could not be set up: {error.message}{hint}")
        return error.exit_code
    say("the object store is set up")
    return 0


def run(
    url: str,
    root: Credentials,
    key: Credentials,
    region: str = REGION,
    *,
    say: Callable[[str], None] = lambda _: None,
    http: PoolManager | None = None,
    clock: Clock = MONOTONIC,
) -> tuple[str, ...]:
    """Wait for the store at `url` and set it up; returns what was done, a line each.

    Raises WaitTimeoutError, StoreError.
    """
    owner = ObjectStore(url, root, region, BUCKET, http=http)
    training = ObjectStore(url, key, region, BUCKET, http=http)
    server = wait_for(owner, say, clock=clock)
    say(f"{url} is {server}")
    return set_up(server, owner, training, key, MinioAdministration(url, root, region, http=http))


def _file(environment: Mapping[str, str], variable: str, name: str) -> tuple[Path, str]:
    return Path(environment.get(variable) or f"{SECRETS}/{name}"), f"{variable} says where it is"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
