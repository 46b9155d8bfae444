"""MinIO's admin API, through `minio`: users and policies, for MinIO and the servers that keep its protocol.

Unit tests open the encrypted bodies that are sent here and compare them with the protocol; end-to-end tests
ask MinIO itself.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lab.errors import StoreError
from lab.host.http import NoAnswerError, explained, first_line, make_pool
from lab.host.reading import parse_json
from lab.store.base import LOG_HINT, NoAdminApiError
from lab.store.s3 import RETRIES
from lab.topology import REGION, Credentials

if TYPE_CHECKING:
    from botocore.client import BaseClient
    from urllib3 import PoolManager

NOT_THERE = ("404", "405", "501")
"""HTTP statuses of a server that does not know the admin API."""


class NoSuchError(StoreError):
    """The store knows no such user or policy."""


class MinioAdministration:
    """The users and policies of the store at `endpoint_url`, as its root key sees them."""

    def __init__(
        self, endpoint_url: str, root: Credentials, region: str = REGION, *, http: PoolManager | None = None
    ) -> None:
        """`http` is the urllib3 pool to use. Nothing is asked of the server yet."""
        self.endpoint_url = endpoint_url
        self._root, self._region, self._given_http = root, region, http

    def put_policy(self, name: str, policy: Mapping[str, object]) -> None:
        """Make the policy or replace it. Raises StoreError, as all methods do."""
        with self._explain(f"make the policy {name}"):
            self._client.policy_add(name, policy=dict(policy))

    def put_user(self, key: Credentials, policy: str) -> None:
        """Make the user with exactly this policy. One that there is gets the new secret and is enabled."""
        with self._explain("make the key"):
            self._client.user_add(key.access_key, key.secret_key)
            self._client.policy_set(policy, user=key.access_key)

    def users_with(self, policy: str) -> tuple[str, ...]:
        """The access keys of the users that have the policy."""
        with self._explain("list the users"):
            users = parse_json(self._client.user_list() or "{}")
        return tuple(
            sorted(
                name
                for name, user in users.items()
                if policy in str((user or {}).get("policyName", "")).split(",")
            )
        )

    def remove_user(self, access_key: str) -> None:
        """Remove a user that there is."""
        with self._explain("remove a former training key"):
            self._client.user_remove(access_key)

    def remove_person(self, access_key: str, policy: str) -> None:
        """Remove a user and her policy; what is not there is no error."""
        for remove, name in ((self._client.user_remove, access_key), (self._client.policy_remove, policy)):
            with contextlib.suppress(NoSuchError), self._explain(f"remove {name}"):
                remove(name)

    def set_user_enabled(self, access_key: str, enabled: bool) -> None:
        """Accept requests of a user, or refuse them; the user keeps key and policy.

        The lab's stand-in server knows this command, too.
        """
        with self._explain(f"{'enable' if enabled else 'disable'} the training key"):
            act = self._client.user_enable if enabled else self._client.user_disable
            act(access_key)

    @cached_property
    def _client(self) -> BaseClient:
        from minio.credentials.providers import StaticProvider
        from minio.minioadmin import MinioAdmin

        parts = urlsplit(self.endpoint_url)
        return MinioAdmin(
            endpoint=parts.netloc,
            credentials=StaticProvider(self._root.access_key, self._root.secret_key),
            region=self._region,
            secure=parts.scheme == "https",
            http_client=self._given_http or make_pool(RETRIES),
        )

    @contextlib.contextmanager
    def _explain(self, what: str) -> Iterator[None]:
        from minio.error import MinioAdminException

        where = f"the object store at {self.endpoint_url}"
        try:
            with explained():
                yield
        except MinioAdminException as error:
            status, body = str(error._code), str(error._body)
            if not body.lstrip().startswith("{") and (status in NOT_THERE or body.lstrip().startswith("<")):
                code = re.search(r"<Code>(\w+)</Code>", body)
                if code and status not in NOT_THERE:
                    raise NoAdminApiError(f"{where} did not {what}: {code[1]}", LOG_HINT) from error
                raise NoAdminApiError(
                    f"{where} has no admin API of MinIO's kind (HTTP {status})",
                    "make the training key by hand with the rights that docs/store.md names",
                ) from error
            reason = _reason(status, body)
            kind = NoSuchError if reason.startswith("XMinioAdminNoSuch") else StoreError
            raise kind(f"{where} did not {what}: {reason}", LOG_HINT) from error
        except NoAnswerError as error:
            raise StoreError(f"{where} did not {what}: {error}", LOG_HINT) from error
        except ValueError as error:
            raise StoreError(
                f"{where} answered what cannot be read, asked to {what}: {first_line(error)}", LOG_HINT
            ) from error


def _reason(status: str, body: str) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        document = parse_json(body)
        return f"{document['Code']}: {document['Message']}"
    return f"HTTP {status}"
