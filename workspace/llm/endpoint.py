"""An OpenAI-style endpoint over an engine, without a server: it is asked by whoever serves HTTP.

GET /v1/models          POST /v1/completions          GET /health (the only one without a token)

Every answer names the SHA-256 of the checkpoint that gave it, as OpenAI's `system_fingerprint`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import Engine, Request, Token
from protocol import DONE, ApiError, Source, Text, Wanted, completion, event, models, read, usage_part

TOKEN_VARIABLE = "RAYLAB_LLM_TOKEN"
RAY_TOKEN_VARIABLE = "RAY_AUTH_TOKEN_PATH"

PART_SECONDS = 0.01
"""Least time between two parts of a stream."""

OnToken = Callable[[Token | None], None]
"""Takes each byte of an answer; None when the engine has failed and there will be no more."""


def bearer_token() -> str:
    """The endpoint's token: what the environment says, or one made of the lab's token of Ray.

    Every node of a lab has that one, so nothing has to be handed over; Ray's cannot be found from the other.
    Raises RuntimeError where there is neither.
    """
    if given := os.environ.get(TOKEN_VARIABLE):
        return given
    path = os.environ.get(RAY_TOKEN_VARIABLE)
    if not path or not Path(path).is_file():
        raise RuntimeError(
            f"no token: set {TOKEN_VARIABLE}, or {RAY_TOKEN_VARIABLE} to the lab's file ray.token"
        )
    secret = Path(path).read_text().strip()
    return hmac.new(secret.encode(), b"raylab: the endpoint of a language model", hashlib.sha256).hexdigest()


class Loop:
    """An engine in a thread of its own. Its methods may be called from any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._todo: list[Callable[[], None]] = []
        self._listeners: dict[str, OnToken] = {}
        self._wake = threading.Condition(threading.RLock())
        self.failure = ""
        """Reason why it answers no more; empty while it does."""
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def check(self, request: Request) -> None:
        """Raise ValueError for a request that the engine cannot answer."""
        self._engine.check(request)

    def submit(self, request: Request, on_token: OnToken) -> None:
        """Have a request answered. `on_token` is called in the engine's thread.

        Raises RuntimeError when the engine has failed; when it fails later, `on_token` is given None.
        """

        def begin() -> None:
            if request.id in self._listeners:  # else it was cancelled before it began
                self._engine.add(request)

        with self._wake:
            self._do(begin)
            self._listeners[request.id] = on_token

    def cancel(self, request: str) -> None:
        """Forget a request; no-op for one that has ended."""

        with self._wake:
            self._listeners.pop(request, None)
            if not self.failure:
                self._do(lambda: self._engine.cancel(request))

    def _do(self, action: Callable[[], None]) -> None:
        with self._wake:
            if self.failure:
                raise RuntimeError(self.failure)
            self._todo.append(action)
            self._wake.notify()

    def _run(self) -> None:
        try:
            while True:
                with self._wake:
                    while not self._todo and not self._engine.busy:
                        self._wake.wait()
                    todo, self._todo = self._todo, []
                for action in todo:
                    action()
                for token in self._engine.step():
                    with self._wake:
                        take = self._listeners.pop if token.finish else self._listeners.get
                        listener = take(token.request, None)
                    if listener:
                        listener(token)
        except Exception as error:
            with self._wake:
                self.failure = f"the engine has failed: {error!r}"
                waiting, self._listeners = tuple(self._listeners.values()), {}
            for listener in waiting:
                listener(None)
            raise


class Parts:
    """The bytes of an answer: the engine's thread puts them, an event loop takes some at a time.

    The first one is to be taken at once, and so is the last; between them PART_SECONDS pass. A part costs the
    processes of Ray Serve more time than a byte costs the engine of a small model.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._loop, self._clock = asyncio.get_running_loop(), clock
        self._tokens: deque[Token | None] = deque()
        self._due = asyncio.Event()
        self._passed_on_at = float("-inf")

    def put(self, token: Token | None) -> None:
        """Add a byte; None when there will be no more."""
        self._tokens.append(token)
        now = self._clock()
        if token is None or token.finish or now - self._passed_on_at >= PART_SECONDS:
            self._passed_on_at = now
            self._loop.call_soon_threadsafe(self._due.set)

    async def take(self) -> list[Token | None]:
        """Wait for a part; at least one byte, or None."""
        while True:
            await self._due.wait()
            self._due.clear()
            if tokens := [self._tokens.popleft() for _ in range(len(self._tokens))]:
                return tokens


@dataclass(frozen=True)
class Reply:
    """An answer over HTTP: a document, or a stream of events."""

    status: int
    document: Mapping[str, Any] | None = None
    stream: AsyncIterator[bytes] | None = None

    @property
    def body(self) -> bytes:
        return json.dumps(self.document).encode()


class Endpoint:
    """Answers requests over HTTP with what an engine gives."""

    def __init__(
        self,
        loop: Loop,
        model: str,
        context: int,
        token: str,
        checkpoint: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`checkpoint` is the SHA-256 of the one that the engine has loaded."""
        self._loop, self._context, self._token = loop, context, token
        self._source = Source(model, checkpoint)
        self._clock = clock
        self._created = int(time.time())

    async def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The reply to one request; `headers` have names in small letters. It raises nothing of its own."""
        try:
            if path == "/health":
                return self._health()
            self._authenticate(headers.get("authorization", ""))
            if (method, path) == ("GET", "/v1/models"):
                return Reply(200, models(self._source.model, self._created, self._context))
            if path != "/v1/completions":
                raise ApiError(404, f"there is no {path}", code="not_found")
            if method != "POST":
                raise ApiError(405, f"{path} takes POST", code="method_not_allowed")
            wanted = read(body, self._source.model, f"cmpl-{uuid.uuid4().hex}")
            try:
                self._loop.check(wanted.request)
            except ValueError as error:
                raise ApiError(400, str(error)) from None
            if wanted.stream:
                return Reply(200, stream=self._stream(wanted))
            return Reply(200, await self._whole(wanted))
        except ApiError as error:
            return Reply(error.status, error.document)

    def _health(self) -> Reply:
        """The state of the engine: 503 once it has failed, as vLLM has it."""
        failure = self._loop.failure
        return Reply(503, {"status": failure}) if failure else Reply(200, {"status": "ok"})

    def _authenticate(self, given: str) -> None:
        """Raise ApiError for a missing or wrong token."""
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            raise ApiError(401, "a bearer token is needed: Authorization: Bearer TOKEN",
                           "authentication_error", code="invalid_api_key")  # fmt: skip

    async def _tokens(self, wanted: Wanted) -> AsyncIterator[list[Token]]:
        """The bytes of an answer in parts, as they come. Raises ApiError when the engine fails.

        A request whose client has gone away is cancelled.
        """
        parts = Parts(self._clock)
        try:
            self._loop.submit(wanted.request, parts.put)
        except RuntimeError as error:
            raise ApiError(503, str(error), "server_error") from None
        ended = False
        try:
            while not ended:
                taken = await parts.take()
                tokens = [token for token in taken if token is not None]
                if tokens:
                    ended = tokens[-1].finish is not None
                    yield tokens
                if len(tokens) < len(taken):
                    raise ApiError(500, "the engine has failed", "server_error")
        finally:
            if not ended:
                self._loop.cancel(wanted.request.id)

    async def _stream(self, wanted: Wanted) -> AsyncIterator[bytes]:
        """The events of a streamed answer. A failure in the middle leaves out the end, `[DONE]`."""
        text, count = Text(), 0
        try:
            async for tokens in self._tokens(wanted):
                count += len(tokens)
                new, finish = [token.token for token in tokens], tokens[-1].finish
                said = text.add(new, finish is not None)
                yield event(completion(wanted, self._source, self._created, said, new, finish, False))
        except ApiError as error:
            yield event(error.document)
            return
        if wanted.include_usage:
            yield event(usage_part(wanted, self._source, self._created, count))
        yield DONE

    async def _whole(self, wanted: Wanted) -> Mapping[str, Any]:
        parts = [token async for tokens in self._tokens(wanted) for token in tokens]
        tokens = [token.token for token in parts]
        said = Text().add(tokens, True)
        return completion(wanted, self._source, self._created, said, tokens, parts[-1].finish, True)
