"""The services behind the gateway, Ray's dashboard and the queues' controller, as it asks them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from lab.errors import ClusterError, LabError
from lab.host.http import bearer
from lab.host.reading import parse_json

TIMEOUT_SECONDS = 30.0
UPLOAD_SECONDS = 120.0
"""Deadline of a request with a body."""

JSON = "application/json"

Body = bytes | bytearray
"""A body; one that is large is not copied."""


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    data: bytes = b""
    kind: str = JSON
    """Its Content-Type."""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """True for a status below 300."""
        return self.status < 300

    def json(self) -> Any:
        """The document in it. Raises ClusterError."""
        try:
            return parse_json(self.data)
        except ValueError as error:
            raise ClusterError(f"a service of the lab answered what is not JSON: {error}") from error

    @property
    def text(self) -> str:
        """Its first 2,000 characters."""
        return self.data[:8000].decode(errors="replace")[:2000]


def document(value: Any, status: int = 200) -> Reply:
    """An answer with a JSON document."""
    return Reply(status, json.dumps(value, ensure_ascii=False).encode())


class Upstream(Protocol):
    """One service behind the gateway. All methods raise ClusterError where it does not answer."""

    async def ask(self, method: str, path: str, body: Body | None = None) -> Reply:
        """One request; `path` may have a query."""

    def tail(self, path: str) -> AsyncIterator[str]:
        """The texts that a WebSocket at `path` sends until it is closed."""


class UnansweredError(ClusterError):
    """A service behind the gateway does not answer."""


class HttpUpstream:
    """The real one, over aiohttp."""

    def __init__(self, session: Any, url: str, token: str) -> None:
        """`session` is aiohttp's, `token` the one that the service wants."""
        self._session, self._url, self._headers = session, url.rstrip("/"), bearer(token)

    async def ask(self, method: str, path: str, body: Body | None = None) -> Reply:
        import aiohttp
        from yarl import URL

        timeout = aiohttp.ClientTimeout(TIMEOUT_SECONDS if body is None else UPLOAD_SECONDS)
        headers = {**self._headers, "Content-Type": JSON}
        try:
            async with self._session.request(
                method,
                URL(self._url + path, encoded=True),
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                return Reply(response.status, await response.read(), response.content_type)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unanswered(error) from error

    async def tail(self, path: str) -> AsyncIterator[str]:
        import aiohttp
        from yarl import URL

        try:
            async with self._session.ws_connect(
                URL(self._url + path, encoded=True), headers=self._headers, heartbeat=30, max_msg_size=0
            ) as socket:
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT:
                        yield message.data
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unanswered(error) from error

    def _unanswered(self, error: Exception) -> LabError:
        why = str(error) or type(error).__name__
        return UnansweredError(
            f"{self._url} does not answer ({why[:200]})", "try again; the teacher sees why"
        )
