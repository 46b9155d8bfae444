"""The values that Ray's C++ library reads once, as it is loaded, and that each fork must have its own of.

Ray (2.60) keeps RAY_JOB_ID and RAY_RAYLET_PID of the environment in strings of its configuration
(`RayConfig`), made by a static initialiser; `Config.initialize` refuses to change these two. A fork of a
process that has loaded the library would register for the wrong job, or take a living raylet for dead. So
the library is loaded with a mark in each variable, the string that holds it is found on the heap, and a fork
writes its own value there. The string is libstdc++'s of the old ABI: length, capacity, reference count, then
the characters. Unless there is exactly one such string for each mark, `Marks.find` says so and nothing is
forked: Ray's processes start in the ordinary way then.
"""

from __future__ import annotations

import ctypes
import struct

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

VALUES = {"RAY_JOB_ID": b"fefefefe", "RAY_RAYLET_PID": b"2147483001"}
"""Variable -> its mark: as long as the longest value (4 bytes in hex; a process id), and none of Ray's."""

HEAD = struct.Struct("<QQi")
"""Length, capacity, reference count less one; four bytes of padding follow."""

HEAD_BYTES = 24


class NotFoundError(Exception):
    """The marks are not where Ray's library is expected to keep them."""


def set_in(environ: MutableMapping[str, str]) -> None:
    """Put the marks into the environment that Ray's library is going to be loaded with."""
    environ.update({name: mark.decode() for name, mark in VALUES.items()})


class Marks:
    """Places of the strings, in this process and in its forks."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self._places = dict(places)

    @classmethod
    def find(cls) -> Marks:
        """Look for them, once Ray's library is loaded. Raises NotFoundError."""
        found: dict[str, list[int]] = {name: [] for name in VALUES}
        for begin, end in _heap():
            data = ctypes.string_at(begin, end - begin)
            for name, mark in VALUES.items():
                found[name] += [begin + at for at in _strings(data, mark)]
        for name, places in found.items():
            if len(places) != 1:
                raise NotFoundError(f"{len(places)} strings hold the mark of {name}, not one")
        return cls({name: places[0] for name, places in found.items()})

    def write(self, environ: Mapping[str, str]) -> None:
        """Let Ray's library have read these variables in `environ`; an absent one was empty.

        Raises NotFoundError for a value that is longer than any of Ray's.
        """
        for name, mark in VALUES.items():
            value = environ.get(name, "").encode()
            if len(value) > len(mark):
                raise NotFoundError(f"{name} is longer than {len(mark)} characters")
            place = self._places[name]
            ctypes.memmove(place, value + b"\0", len(value) + 1)
            ctypes.memmove(place - HEAD_BYTES, struct.pack("<Q", len(value)), 8)


def _heap() -> list[tuple[int, int]]:
    """Begin and end of each piece of memory that can be written and belongs to no file."""
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split()
            path = fields[5] if len(fields) > 5 else ""
            if fields[1].startswith("rw") and path in ("", "[heap]"):
                begin, end = (int(number, 16) for number in fields[0].split("-"))
                found.append((begin, end))
    return found


def _strings(data: bytes, mark: bytes) -> list[int]:
    """Offsets in `data` of strings of the old ABI that are `mark`."""
    found, at = [], -1
    while (at := data.find(mark + b"\0", at + 1)) >= 0:
        if at >= HEAD_BYTES and HEAD.unpack_from(data, at - HEAD_BYTES)[:2] == (len(mark), len(mark)):
            found.append(at)
    return found
