"""Prometheus' HTTP API, as far as the lab asks it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from lab.api.base import parse
from lab.api.monitoring import Rules
from lab.errors import LabDownError
from lab.host import http
from lab.host.reading import parse_json

M = TypeVar("M")

Request = Callable[..., http.Reply]

QUERY_SECONDS = 30.0
"""Deadline of an answer."""


class Prometheus:
    """Prometheus of one lab. Raises LabDownError where it does not answer."""

    def __init__(self, url: str, request: Request = http.request) -> None:
        self._url, self._request = url, request

    def alerts(self) -> tuple[str, ...]:
        """The names of all alerts that it has rules for."""
        answer = ask(Rules, "GET", f"{self._url}/api/v1/rules?type=alert", request=self._request)
        return tuple(sorted({rule.name for group in answer.data.groups for rule in group.rules}))


def ask(
    model: type[M], method: str, url: str, document: object = None, *, request: Request = http.request
) -> M:
    """What Prometheus or Alertmanager answers, of this shape. Raises LabDownError."""
    body = None if document is None else json.dumps(document).encode()
    headers = {"Content-Type": "application/json"} if body else {}
    base = url.partition("/api/")[0]
    try:
        reply = request(method, url, headers=headers, body=body, timeout=QUERY_SECONDS)
    except http.NoAnswerError as error:
        raise LabDownError(f"{base} does not answer: {error}", "see labctl status") from error
    if reply.status != 200:
        said = reply.data.decode(errors="replace").strip()[:200]
        raise LabDownError(f"{base} answers {reply.status}: {said}", "see labctl status")
    try:
        answer = parse_json(reply.data)
    except ValueError as error:
        raise LabDownError(
            f"{base} answers something that is not JSON: {error}", "see labctl status"
        ) from error
    return parse(model, answer, f"the answer of {base}", LabDownError)
