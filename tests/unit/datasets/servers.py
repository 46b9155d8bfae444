"""A web server in memory that speaks as urllib3 does, and breaks off where it is told to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from urllib3._collections import HTTPHeaderDict
from urllib3.exceptions import MaxRetryError, NameResolutionError, ProtocolError


class Response:
    """One answer."""

    def __init__(
        self, status: int, headers: dict[str, str], content: bytes, breaks_after: int | None
    ) -> None:
        self.status, self.headers = status, HTTPHeaderDict(headers)
        self._content, self._breaks_after = content, breaks_after
        self.closed = False

    def stream(self, size: int, decode_content: bool) -> Iterator[bytes]:
        """The content; not all of it where the connection breaks."""
        content = self._content if self._breaks_after is None else self._content[: self._breaks_after]
        yield from (content[at : at + size] for at in range(0, len(content), size))
        if self._breaks_after is not None:
            raise ProtocolError("Connection broken")

    def close(self) -> None:
        """Give the connection back."""
        self.closed = True


@dataclass
class Server:
    """Serves `content`. Request number N breaks off after `breaks[N]` bytes; `answers[N]` is its status."""

    content: bytes
    etag: str = '"one"'
    breaks: Sequence[int | None] = ()
    answers: Sequence[int] = ()
    kind: str = "application/zip"
    ranges: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)
    offline: bool = False

    def request(self, method: str, url: str, **options: Any) -> Response:
        """Answer as a server with byte ranges does."""
        number = len(self.asked)
        headers = dict(options["headers"])
        self.asked.append(headers)
        if self.offline:
            lost = NameResolutionError("host", None, OSError("unknown"))  # type: ignore[arg-type]
            raise MaxRetryError(None, url, lost)  # type: ignore[arg-type]
        said = self.answers[number] if number < len(self.answers) else 200
        if said != 200:
            return Response(said, {}, b"", None)
        breaks = self.breaks[number] if number < len(self.breaks) else None
        total, begin = len(self.content), 0
        common = {"Content-Type": self.kind, **({"ETag": self.etag} if self.etag else {})}
        if self.ranges and "Range" in headers and headers.get("If-Range", self.etag) == self.etag:
            begin = int(headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if begin >= total:
                return Response(416, common, b"", None)
            found = {**common, "Content-Range": f"bytes {begin}-{total - 1}/{total}"}
            return Response(206, found, self.content[begin:], breaks)
        return Response(200, {**common, "Content-Length": str(total)}, self.content, breaks)
