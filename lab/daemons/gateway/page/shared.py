"""One request for all who look at the same moment: thirty open pages ask the lab as often as one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from lab.daemons.gateway.upstream import REPLY_BYTES, Body, Reply, UnansweredError, Upstream
from lab.host.clock import MONOTONIC, Clock

FRESH_SECONDS = 1.5
"""Age up to which an answer is given again."""

PATIENCE_SECONDS = 5.0
"""Longest wait of a page for an answer."""


class Shared:
    """A service behind the gateway, whose answers are kept for a moment."""

    def __init__(self, upstream: Upstream, clock: Clock = MONOTONIC) -> None:
        """Nothing is asked yet."""
        self._upstream, self._clock = upstream, clock
        self._kept: dict[str, tuple[float, asyncio.Task[Reply]]] = {}

    def forget(self) -> None:
        """Ask anew: something was changed."""
        self._kept.clear()

    async def ask(self, method: str, path: str, body: Body | None = None, most: int = REPLY_BYTES) -> Reply:
        if method != "GET":
            self.forget()
            return await self._upstream.ask(method, path, body, most)
        at, task = self._kept.get(path, (0.0, None))
        if task is None or task.cancelled() or (task.done() and self._clock() - at > FRESH_SECONDS):
            task = asyncio.ensure_future(self._asked(path, most))
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # it counts as read
            self._kept[path] = self._clock(), task
        if not task.done():  # who goes away does not end it for the others
            await asyncio.wait((task,), timeout=PATIENCE_SECONDS)
        if not task.done():
            raise UnansweredError(f"no answer within {PATIENCE_SECONDS:g} s")
        return task.result()

    async def _asked(self, path: str, most: int) -> Reply:
        return await self._upstream.ask("GET", path, None, most)

    def tail(self, path: str) -> AsyncIterator[str]:
        return self._upstream.tail(path)
