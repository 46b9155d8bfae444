"""The queues' controller over HTTP: one request, its answer in a shape, and what it refuses as an error.

It knows no page of the controller, so that a client of a few pages imports the shapes of those alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from lab.api.base import plain
from lab.api.light import answer
from lab.cluster import gateway as words
from lab.errors import ClusterError, LabDownError, LabError, UnsupportedError, UsageError
from lab.host import http
from lab.host.reading import parse_json

if TYPE_CHECKING:
    from typing_extensions import Self
    from urllib3 import PoolManager

    from lab.api.queue_requests import Misfit
    from lab.topology import Endpoints

M = TypeVar("M")

TIMEOUT_SECONDS = 20.0
"""Deadline of one request: a look ahead over many jobs takes seconds."""


def _kinds(of: type[LabError]) -> Iterator[type[LabError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


CODES: Mapping[int, type[LabError]] = {
    kind.exit_code: kind for kind in _kinds(LabError) if kind.__module__ == LabError.__module__
}


class RefusedFilesError(UsageError):
    """Files of objects that were refused, with each thing that is wrong."""

    def __init__(self, message: str, hint: str, problems: Sequence[Misfit]) -> None:
        """`problems` are in the order of the files."""
        super().__init__(message, hint)
        self.problems = tuple(problems)


class Controller:
    """The controller of one lab.

    Raises LabDownError where it does not answer, and what it refuses as the error that it names.
    """

    def __init__(
        self, url: str, token: str, pool: PoolManager | None = None, *, gateway: bool = False
    ) -> None:
        """`url` is the controller's, empty in a lab that has none; `token` is Ray's; see http.make_pool.

        Of a `gateway` both are what a person of a class has.
        """
        self._url, self._headers, self._pool = url.rstrip("/"), http.bearer(token), pool
        self._gateway = gateway

    @classmethod
    def of(cls, endpoints: Endpoints) -> Self:
        """The controller of the lab that is reached here."""
        return cls(endpoints.queue, endpoints.ray_token, gateway=endpoints.by_gateway)

    def ask(self, model: type[M], method: str, path: str, request: object = None) -> M:
        """The answer of one page, which has this shape.

        Raises ClusterError where it has another one.
        """
        what = f"the answer of the queues' controller to {path.partition('?')[0]}"
        return answer(model, self.answer_of(method, path, request), what, ClusterError)

    def answer_of(self, method: str, path: str, request: object = None) -> object:
        """The answer of one page, as plain data."""
        reply = self.send(method, path, None if request is None else _sent(request))
        if reply.status >= 300:
            raise refusal(reply)
        return _parsed(reply)

    def send(
        self, method: str, path: str, body: bytes | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> http.Reply:
        """The reply to one request, whatever its status but for a refused token."""
        if not self._url:
            raise UnsupportedError(
                "this lab has no controller of queues", "restart it: `labctl down`, then `labctl up`"
            )
        if self._pool is None:
            self._pool = http.make_pool()
        try:
            reply = http.request(
                method, self._url + path, headers=self._headers, body=body, timeout=timeout, pool=self._pool
            )
        except http.NoAnswerError as error:
            if self._gateway:
                raise LabDownError(*words.silent(self._url, error)) from error
            raise LabDownError(
                f"the queues' controller at {self._url} does not answer ({error})",
                "look at `labctl status` and `labctl logs queue`; `labctl up` starts it again",
            ) from error
        if reply.status in (401, 403) and http.REFUSED_HEADER not in reply.headers:
            if self._gateway:
                raise ClusterError(*words.refused(self._url, reply.status))
            raise ClusterError(
                f"the queues' controller at {self._url} refused the token (HTTP {reply.status})",
                "somebody else started that lab, or its token was replaced: `labctl down`, then `labctl up`",
            )
        return reply


def _sent(request: object) -> bytes:
    """A request as JSON, without what it says nothing of."""
    return json.dumps({name: value for name, value in plain(request).items() if value is not None}).encode()


def _parsed(reply: http.Reply) -> object:
    try:
        return parse_json(reply.data)
    except ValueError as error:
        text = reply.data[:80].decode(errors="replace")
        raise ClusterError(
            f"what answered is not the queues' controller: {text!r}",
            "another program may hold its port: `labctl status`",
        ) from error


def refusal(reply: http.Reply) -> LabError:
    """The error that an answer tells of."""
    from lab.api.queue_requests import Refused

    document = _parsed(reply)
    try:
        error = answer(Refused, document, "the refusal", ClusterError).error
    except ClusterError:
        text = reply.data[:200].decode(errors="replace")
        return ClusterError(f"the queues' controller answered HTTP {reply.status}: {text}")
    if error.problems:
        return RefusedFilesError(error.message, error.hint, error.problems)
    return CODES.get(error.code, ClusterError)(error.message, error.hint)
