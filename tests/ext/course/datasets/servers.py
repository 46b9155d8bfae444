"""A web server in memory, which requests talks to; it breaks off where it is told to."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import HTTPResponse
from urllib3.exceptions import MaxRetryError, NameResolutionError, ProtocolError


def offline() -> Exception:
    """The error of requests where no name is known."""
    lost = NameResolutionError("host", None, OSError("unknown"))  # type: ignore[arg-type]
    return requests.ConnectionError(MaxRetryError(None, "/", lost))  # type: ignore[arg-type]


class Breaking(io.BytesIO):
    """Content whose connection breaks at its end."""

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes. Raises ProtocolError once there are none."""
        if data := super().read(size):
            return data
        raise ProtocolError("Connection broken")


@dataclass
class Server:
    """Serves `content`. Request number N breaks off after `breaks[N]` bytes; `answers[N]` is its status.

    `moved` are addresses that lead to another one.
    """

    content: bytes
    etag: str = '"one"'
    breaks: Sequence[int | None] = ()
    answers: Sequence[int] = ()
    kind: str = "application/zip"
    ranges: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)
    error: Exception | None = None
    """Raised by each request."""
    moved: Mapping[str, str] = field(default_factory=dict)
    proxies: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def session(self) -> requests.Session:
        """A session in which every address is this server's."""
        session = requests.Session()
        session.mount("https://", _Adapter(self))
        session.mount("http://", _Adapter(self))
        return session

    def answer(self, url: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes, int | None]:
        """Status, headers, content and after how many bytes it breaks, as of a server with byte ranges."""
        if url in self.moved:
            return 302, {"Location": self.moved[url]}, b"", None
        number = len(self.asked)
        self.asked.append(headers)
        if self.error is not None:
            raise self.error
        said = self.answers[number] if number < len(self.answers) else 200
        if said != 200:
            return said, {}, b"", None
        breaks = self.breaks[number] if number < len(self.breaks) else None
        total = len(self.content)
        common = {"Content-Type": self.kind, **({"ETag": self.etag} if self.etag else {})}
        if self.ranges and "Range" in headers and headers.get("If-Range", self.etag) == self.etag:
            begin = int(headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if begin >= total:
                return 416, common, b"", None
            partial = {**common, "Content-Range": f"bytes {begin}-{total - 1}/{total}"}
            return 206, partial, self.content[begin:], breaks
        return 200, {**common, "Content-Length": str(total)}, self.content, breaks


class _Adapter(BaseAdapter):
    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def send(self, request: requests.PreparedRequest, *_: Any, **options: Any) -> requests.Response:
        """Answer as a connection would."""
        self._server.proxies.append(options.get("proxies") or {})
        status, headers, content, breaks = self._server.answer(
            str(request.url), {key: str(value) for key, value in request.headers.items()}
        )
        body = io.BytesIO(content) if breaks is None else Breaking(content[:breaks])
        raw = HTTPResponse(body, headers=headers, status=status, preload_content=False)
        return HTTPAdapter().build_response(request, raw)

    def close(self) -> None:
        """Nothing to give back."""
