"""The services behind the gateway, Ray's dashboard and the queues' controller, as it asks them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from lab.errors import ClusterError, LabError
from lab.host.http import bearer
from lab.host.reading import parse_json

if TYPE_CHECKING:
    from aiohttp import ClientSession, StreamReader

TIMEOUT_SECONDS = 30.0
UPLOAD_SECONDS = 120.0
"""Deadline of a request with a body."""

REPLY_BYTES = 16 << 20
"""Size of the largest answer of a service."""

MESSAGE_BYTES = 4 << 20
"""Size of the largest message of a stream; Ray's have some tens of kilobytes."""

PART_BYTES = 256 << 10
"""Size of the parts in which a body is sent."""

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
        return self.status < 300

    def json(self) -> Any:
        """The document in it, which is not to be changed: all who look get the same. Raises ClusterError."""
        return self._document

    @cached_property
    def _document(self) -> Any:
        try:
            return parse_json(self.data)
        except ValueError as error:
            raise ClusterError(f"a service of the lab answered what is not JSON: {error}") from error

    @property
    def text(self) -> str:
        """Its first 2,000 characters."""
        return self.data[:8000].decode(errors="replace")[:2000]


def document(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())


async def _parts(body: Body) -> AsyncIterator[bytes]:
    """A body in parts: as a whole it would be copied while it waits for the network."""
    view = memoryview(body)
    for begin in range(0, len(view), PART_BYTES):
        yield bytes(view[begin : begin + PART_BYTES])


class Upstream(Protocol):
    """One service behind the gateway. All methods raise ClusterError where it does not answer."""

    async def ask(self, method: str, path: str, body: Body | None = None, most: int = REPLY_BYTES) -> Reply:
        """One request; `path` may have a query. Raises TooLongError beyond `most` bytes of an answer."""

    def tail(self, path: str) -> AsyncIterator[str]:
        """The texts that a WebSocket at `path` sends until it is closed."""


class UnansweredError(ClusterError):
    """A service behind the gateway does not answer."""


class TooLongError(ClusterError):
    """A service behind the gateway answers more than fits into memory."""

    def __init__(self, message: str, hint: str, head: bytes) -> None:
        """`head` is the beginning of the answer."""
        super().__init__(message, hint)
        self.head = head


class HttpUpstream:
    """The real one, over aiohttp."""

    def __init__(
        self, session: ClientSession, url: str, token: str, tails: ClientSession | None = None
    ) -> None:
        """`session` is aiohttp's, `token` the one that the service wants; `tails` a session for streams."""
        self._session, self._url, self._headers = session, url.rstrip("/"), bearer(token)
        self._tails = tails or session

    async def ask(self, method: str, path: str, body: Body | None = None, most: int = REPLY_BYTES) -> Reply:
        import aiohttp
        from yarl import URL

        timeout = aiohttp.ClientTimeout(TIMEOUT_SECONDS if body is None else UPLOAD_SECONDS)
        headers = {**self._headers, "Content-Type": JSON}
        if body is not None:
            headers["Content-Length"] = str(len(body))
        try:
            async with self._session.request(
                method,
                URL(self._url + path, encoded=True),
                data=_parts(body) if body else body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                data = await self._read(response.content, most)
                return Reply(response.status, data, response.content_type)
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise self._unanswered(error) from error

    async def _read(self, content: StreamReader, most: int) -> bytes:
        data = bytearray()
        while chunk := await content.readany():
            data += chunk
            if len(data) > most:
                message = f"{self._url} answered more than {most >> 20} MiB"
                raise TooLongError(message, "ask for less", bytes(data[:most]))
        return bytes(data)

    async def tail(self, path: str) -> AsyncIterator[str]:
        import aiohttp
        from yarl import URL

        try:
            url = URL(self._url + path, encoded=True)
            async with self._tails.ws_connect(
                url, headers=self._headers, heartbeat=30, max_msg_size=MESSAGE_BYTES
            ) as socket:
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT:
                        yield message.data
                if socket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE:
                    raise aiohttp.ServerDisconnectedError("the stream broke")
        except aiohttp.WSServerHandshakeError as error:
            if error.status < 500:
                raise ClusterError(f"{self._url} refused the log with HTTP {error.status}") from error
            raise self._unanswered(error) from error
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise self._unanswered(error) from error

    def _unanswered(self, error: Exception) -> LabError:
        why = str(error) or type(error).__name__
        return UnansweredError(
            f"{self._url} does not answer ({why[:200]})", "try again; the teacher sees why"
        )
