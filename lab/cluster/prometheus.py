"""Prometheus' HTTP API, as far as the lab asks it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from lab.errors import LabDownError
from lab.host import http
from lab.host.reading import parse_json

Request = Callable[..., http.Reply]

QUERY_SECONDS = 30.0
"""Deadline of an answer."""


@dataclass(frozen=True)
class Series:
    """Values of one set of labels over time."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]
    """Seconds since the epoch, and value, in order."""


class Prometheus:
    """Prometheus of one lab. Raises LabDownError where it does not answer."""

    def __init__(self, url: str, request: Request = http.request) -> None:
        """`url` is its address."""
        self._url, self._request = url, request

    def over(self, query: str, start: float, end: float, step: float) -> tuple[Series, ...]:
        """Values of a query between two times (seconds since the epoch), every `step` seconds."""
        asked = urlencode({"query": query, "start": start, "end": end, "step": step})
        matrix = ask("GET", f"{self._url}/api/v1/query_range?{asked}", request=self._request)["data"][
            "result"
        ]
        return tuple(
            Series(one["metric"], tuple((float(at), float(value)) for at, value in one["values"]))
            for one in matrix
        )

    def alerts(self) -> tuple[str, ...]:
        """The names of all alerts that it has rules for."""
        groups = ask("GET", f"{self._url}/api/v1/rules?type=alert", request=self._request)["data"]["groups"]
        return tuple(sorted({rule["name"] for group in groups for rule in group["rules"]}))


def ask(method: str, url: str, document: Any = None, *, request: Request = http.request) -> Any:
    """The JSON that Prometheus or Alertmanager answers. Raises LabDownError."""
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
        return parse_json(reply.data)
    except ValueError as error:
        raise LabDownError(
            f"{base} answers something that is not JSON: {error}", "see labctl status"
        ) from error
