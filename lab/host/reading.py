"""Reads files that a person or another program has written, without blocking and up to a limit of size.

It needs only the standard library, so that labctl's set-up and programs in containers can use it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import IO, Any

from lab.errors import NotFoundError, UsageError

SMALL = 1 << 20
"""Bytes of the largest file with settings, keys or a requirements list."""
DOCUMENT = 16 << 20
"""Bytes of the largest receipt, script or state."""

IRREGULAR = "is a pipe, socket or device, not a regular file"
HANDED_OVER = ("/dev/fd/", "/proc/self/fd/")


class TooLargeError(OSError):
    """A file is larger than anything of its kind."""


def open_file(path: Path, most: int | None = None) -> IO[bytes]:
    """Open a regular file for reading. Raises OSError at once for anything else and for an empty file.

    TooLargeError is for more than `most` bytes.
    """
    stream, size = _open(path)
    if size and (most is None or size <= most):
        return stream
    stream.close()
    raise _too_large(most or 0, path) if size else OSError(errno.EINVAL, "is empty", str(path))


def read_bytes(path: Path, most: int = DOCUMENT) -> bytes:
    """The content of a regular file, or of a descriptor that labctl was given, such as /dev/stdin.

    Raises OSError: no such file, no regular file, or (TooLargeError) one of more than `most` bytes.
    """
    stream, size = _open(path, handed_over=_is_handed_over(path))
    with stream:
        data: bytes | None = b"" if size > most else stream.read(most + 1)
    if data is None:  # what the kernel only seems to have as a file
        raise OSError(errno.EAGAIN, "has nothing to read now", str(path))
    if size > most or len(data) > most:
        raise _too_large(most, path)
    return data


def read_text(path: Path, most: int = DOCUMENT) -> str:
    """The text in such a file. Raises OSError, and ValueError when it is not UTF-8."""
    try:
        return read_bytes(path, most).decode()
    except UnicodeDecodeError as error:
        raise ValueError("not text in UTF-8") from error


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document. Raises ValueError, also for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except UnicodeDecodeError as error:
        raise ValueError("not text in UTF-8") from error


def read_json(path: Path, most: int = DOCUMENT) -> Any:
    """The value of the JSON document in such a file. Raises OSError, ValueError."""
    return parse_json(read_bytes(path, most))


def named_text(path: Path, what: str, wanted: str, most: int = DOCUMENT) -> tuple[str, str]:
    """The name and the text of a file that a person named; `what` it cannot be if it is too large.

    Raises UsageError; NotFoundError with the hint `wanted`.
    """
    try:
        return str(path), read_text(path, most)
    except TooLargeError as error:
        raise UsageError(f"{path} is {error.strerror}: no {what}") from error
    except OSError as error:
        raise NotFoundError(f"{path}: {error.strerror}", wanted) from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def _open(path: Path, *, handed_over: bool = False) -> tuple[IO[bytes], int]:
    """A file and its size. The open file is examined, so that nothing can be put in its place meanwhile."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
    try:
        descriptor = os.open(path, flags if handed_over else flags | getattr(os, "O_NONBLOCK", 0))
    except ValueError as error:  # a NUL, or half a character
        raise OSError(errno.EINVAL, "not a file name", str(path)) from error
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, IRREGULAR, str(path)) from error
        raise
    try:
        info = os.fstat(descriptor)
        _refuse(info.st_mode, path, handed_over)
        return os.fdopen(descriptor, "rb"), info.st_size
    except BaseException:
        os.close(descriptor)
        raise


def _too_large(most: int, path: Path) -> TooLargeError:
    limit = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most} bytes"
    return TooLargeError(errno.EFBIG, f"larger than {limit}", str(path))


def _refuse(mode: int, path: Path, handed_over: bool) -> None:
    """Refuse all but a regular file; if it was handed over, only a folder. Raises OSError."""
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode) and not handed_over:
        raise OSError(errno.EINVAL, IRREGULAR, str(path))


def _is_handed_over(path: Path) -> bool:
    """True for the path of a descriptor: /dev/stdin, or what a shell writes for `<(command)`."""
    name = os.path.abspath(path) if "\0" not in str(path) else ""
    return name == "/dev/stdin" or (name.startswith(HANDED_OVER) and name.rpartition("/")[2].isdigit())
