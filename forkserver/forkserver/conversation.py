"""The server's side of what a launcher and a server say to each other."""

from __future__ import annotations

import contextlib
import os
import socket

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from typing import Any


class Conversation:
    """One launcher: what it has sent so far, and its fork."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.data = b""
        self.received: list[int] = []
        self.request: dict[str, Any] | None = None
        self.pid = 0
        self.guard: socket.socket | None = None
        """What the fork watches: it is killed when neither launcher nor server have it open."""

    def close(self) -> None:
        for number in self.received:
            with contextlib.suppress(OSError):
                os.close(number)
        self.received = []
        self.connection.close()
        if self.guard is not None:
            self.guard.close()

    def say(self, text: str) -> None:
        """Raises OSError when nobody listens."""
        self.connection.sendall(text.encode() + b"\n")

    # Over an `exec` of the server

    def handed_on(self) -> str:
        """One word by which the server's next program takes over the descriptors of a fork that lives."""
        assert self.guard is not None
        numbers = (self.connection.fileno(), self.guard.fileno())
        for number in numbers:
            os.set_inheritable(number, True)
        return ":".join(map(str, (self.pid, *numbers)))

    @classmethod
    def taken_over(cls, word: str) -> Conversation:
        pid, connection, guard = map(int, word.split(":"))
        for number in (connection, guard):
            os.set_inheritable(number, False)
        talk = cls(socket.socket(fileno=connection))
        talk.connection.setblocking(False)
        talk.pid, talk.guard, talk.request = pid, socket.socket(fileno=guard), {}
        return talk
