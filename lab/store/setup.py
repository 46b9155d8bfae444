"""Sets an object store up for a lab: the bucket, and a training key that reaches nothing else.

    python -m lab.store.setup

AWS_ENDPOINT_URL says where the store is; LAB_S3_ROOT_USER_FILE, LAB_S3_ROOT_PASSWORD_FILE and
LAB_S3_TRAINING_KEY_FILE say where the keys are, by default where Compose puts secrets. It can be run again at
any time: what is there stays, a changed training key replaces the old one. The exit code is 0 or that of the
error, and the last line says what went wrong.

With MinIO and its forks the key is made through their admin API. The lab's stand-in server gets its keys on
its command line; any other store needs a person who makes the key. In the end it is tried out: it must reach
its bucket and no other.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from lab.errors import LabError, StoreError, UsageError, WaitTimeoutError
from lab.host.secrets import read_key, read_secret
from lab.store.base import AccessDeniedError, NoAdminApiError, Store, UnreachableStoreError
from lab.topology import BUCKET, REGION, Credentials

POLICY = "raylab-training"

WAIT_SECONDS = 60.0
"""How long the store may take to answer. Measured on 2 cores: the stand-in needs 2 s."""

POLL_SECONDS = 0.5
SAY_SECONDS = 5.0

STAND_IN = "moto"
"""How the stand-in server begins what it says of itself."""

SECRETS = "/run/secrets"
ROOT_USER, ROOT_PASSWORD, KEY = (
    "LAB_S3_ROOT_USER_FILE",
    "LAB_S3_ROOT_PASSWORD_FILE",
    "LAB_S3_TRAINING_KEY_FILE",
)


class Admin(Protocol):
    """What is needed of a store's own administration. All methods raise StoreError."""

    def put_policy(self, name: str, policy: Mapping[str, Any]) -> None:
        """Make the policy or replace it."""

    def put_user(self, key: Credentials, policy: str) -> None:
        """Make the user with this key, or give it this key, with exactly this policy."""

    def users_with(self, policy: str) -> tuple[str, ...]:
        """The access keys of the users that have the policy."""

    def remove_user(self, access_key: str) -> None:
        """Remove a user that there is."""


def training_policy(bucket: str) -> dict[str, Any]:
    """What the training key may do: use the objects of its bucket. It makes no keys from itself."""
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
    store: Store,
    say: Callable[[str], None],
    *,
    seconds: float = WAIT_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Wait until the store answers; returns what it says it is.

    Raises WaitTimeoutError after `seconds`, and StoreError at once when it answers but refuses the key.
    """
    begin = said = clock()
    while True:
        try:
            return store.ping()
        except UnreachableStoreError as error:
            now = clock()
            if now - begin >= seconds:
                raise WaitTimeoutError(
                    f"the object store does not answer after {seconds:g} s: {error.message}",
                    "see the store's log: labctl logs minio",
                ) from error
            if now - said >= SAY_SECONDS:
                said = now
                say(f"waiting for the object store: {error.message}")
            sleep(POLL_SECONDS)


def set_up(server: str, root: Store, training: Store, key: Credentials, admin: Admin) -> tuple[str, ...]:
    """Make what the lab needs in the store that calls itself `server`; returns what was done, a line each.

    `root` and `training` are the lab's bucket as the two keys see it; `key` is the training key. Raises
    StoreError.
    """
    done = [f"bucket {root.bucket}: {'made' if root.ensure_bucket() else 'there already'}"]
    if server.startswith(STAND_IN):
        done.append("training key: the stand-in server has it from its own command line")
    else:
        done += _make_key(root.bucket, training, key, admin)
    _try_out(training)
    done.append(f"training key: tried out, it reaches the bucket {root.bucket} and no other")
    return tuple(done)


def _make_key(bucket: str, training: Store, key: Credentials, admin: Admin) -> list[str]:
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
    http: Any = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """What `python -m lab.store.setup` does. `http` is the urllib3 pool to use."""
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
        for line in run(url, root, key, region, say=say, http=http, clock=clock, sleep=sleep):
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
    http: Any = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """Wait for the store at `url` and set it up; returns what was done, a line each.

    Raises WaitTimeoutError, StoreError.
    """
    from lab.store.admin import MinioAdministration
    from lab.store.s3 import ObjectStore

    owner = ObjectStore(url, root, region, BUCKET, http=http)
    training = ObjectStore(url, key, region, BUCKET, http=http)
    server = wait_for(owner, say, clock=clock, sleep=sleep)
    say(f"{url} is {server}")
    return set_up(server, owner, training, key, MinioAdministration(url, root, region, http=http))


def _file(environment: Mapping[str, str], variable: str, name: str) -> tuple[Path, str]:
    return Path(environment.get(variable) or f"{SECRETS}/{name}"), f"{variable} says where it is"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
