"""Guards of the standard streams: a stream that cannot be written to is noted once, then given up.

stdout carries the result: losing it ends the command and decides its exit code. stderr only accompanies it:
losing it changes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import TextIO, cast


class Guarded:
    """A text stream that remembers why writing failed."""

    def __init__(self, stream: TextIO | None, *, strict: bool) -> None:
        """`stream` is None where Python found it closed. Without `strict` nothing is raised."""
        closed = OSError(errno.EBADF, os.strerror(errno.EBADF))
        self._stream, self._strict = cast(TextIO, stream), strict
        self._closed = closed if stream is None else None
        self.error: OSError | None = None
        """Reason why writing failed, once it has."""

    def write(self, text: str) -> int:
        """Write a text; returns its length. After a failure every further write raises the same OSError."""
        return self._try("write", text) or len(text)

    def flush(self) -> None:
        """Hand on what was written. Raises OSError."""
        self._try("flush")

    @property
    def buffer(self) -> _Bytes:
        """The underlying byte stream, guarded too."""
        return _Bytes(self, self._stream.buffer)

    def isatty(self) -> bool:
        return self._stream is not None and bool(self._stream.isatty())

    @property
    def encoding(self) -> str:
        return getattr(self._stream, "encoding", None) or "utf-8"

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def _try(self, what: str, *arguments: object, stream: object = None) -> int | None:
        try:
            if self.error is None and self._closed is None:
                written: int | None = getattr(stream or self._stream, what)(*arguments)
                return written
            if self.error is None and what == "write" and arguments[0]:
                raise cast(OSError, self._closed)
        except OSError as error:
            self.error = error
            _let_go(self._stream)
        if self.error is not None and self._strict:
            raise self.error
        return None


class _Bytes:
    """The buffer of a guarded stream."""

    def __init__(self, owner: Guarded, stream: object) -> None:
        self._owner, self._stream = owner, stream

    def write(self, data: bytes) -> int:
        return self._owner._try("write", data, stream=self._stream) or len(data)

    def flush(self) -> None:
        self._owner._try("flush", stream=self._stream)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def _let_go(stream: TextIO) -> None:
    """Discard what is still buffered: else the interpreter fails on it when it exits."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


@contextlib.contextmanager
def guarded() -> Iterator[Guarded]:
    """Guard both streams in this context; yields the guard of stdout."""
    before = sys.stdout, sys.stderr
    stdout = Guarded(before[0], strict=True)
    sys.stdout, sys.stderr = cast(TextIO, stdout), cast(TextIO, Guarded(before[1], strict=False))
    try:
        yield stdout
    finally:
        sys.stdout, sys.stderr = before
