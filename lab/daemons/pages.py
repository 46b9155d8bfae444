"""Requests to a daemon, whose bodies are checked here, and its answers, over plain WSGI."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias, TypeVar
from urllib.parse import parse_qs

from lab.api.base import parse, plain
from lab.errors import LabError, UsageError
from lab.host.reading import DOCUMENT, parse_json
from lab.host.serving import Environ

M = TypeVar("M")


class HttpError(LabError):
    """A request that is wrong as HTTP."""

    exit_code = UsageError.exit_code

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    """A request whose path was recognised: `parts` are the variable parts of the path."""

    environ: Environ
    parts: tuple[str, ...]

    def parameter(self, name: str, default: str = "") -> str:
        """A parameter of the query, the last of its name."""
        return str(parse_qs(self.environ.get("QUERY_STRING", "")).get(name, [default])[-1])

    def number(self, name: str, default: int, most: int) -> int:
        """A whole number of the query. Raises UsageError."""
        text = self.parameter(name, str(default))
        if not re.fullmatch(r"\d{1,18}", text) or int(text) > most:
            raise UsageError(f"{name}={text[:80]}: must be a whole number from 0 to {most}")
        return int(text)

    def body(self, most: int = DOCUMENT) -> bytes:
        """All that was sent. Raises HttpError, before reading what is too large."""
        length = self.environ.get("CONTENT_LENGTH") or ""
        if not re.fullmatch(r"\d{1,18}", length):
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "the request does not say its Content-Length")
        if int(length) > most:
            message = f"the request has {length} bytes; {most} are the most"
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
        data: bytes = self.environ["wsgi.input"].read(int(length))
        if len(data) < int(length):
            raise HttpError(HTTPStatus.BAD_REQUEST, "the request ended before its Content-Length")
        return data


@dataclass(frozen=True)
class Answer:
    """A status and its body: a document of lab.api, text, or nothing."""

    status: HTTPStatus = HTTPStatus.OK
    document: object = None
    text: bytes | None = None

    def parts(self) -> tuple[str, list[tuple[str, str]], bytes]:
        """Status line, headers and body."""
        kind, body = "text/plain; version=0.0.4; charset=utf-8", self.text or b""
        if self.document is not None:
            kind, body = "application/json", json.dumps(plain(self.document), ensure_ascii=False).encode()
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
        return f"{self.status.value} {self.status.phrase}", headers, body


Handler = Callable[[Request], Answer]

Page: TypeAlias = "tuple[str, str, Handler]"
"""Method, pattern of the path, handler."""


def body(data: bytes, model: type[M]) -> M:
    """The document in a request, which is of this shape; an empty one is {}.

    Raises UsageError that says where it is wrong.
    """
    try:
        document = parse_json(data or b"{}")
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # it cannot be stored, nor sent on
        raise UsageError("the request is not JSON: half a character (a lone surrogate)") from error
    except ValueError as error:
        raise UsageError(f"the request is not JSON: {error}") from error
    asked = parse(model, document, "the request")
    _check_texts(document, "the request")
    return asked


def _check_texts(value: object, where: str) -> None:
    """Refuse a NUL, and a name with a control character: no system takes such ones. Raises UsageError."""
    if isinstance(value, str) and "\0" in value:
        raise UsageError(f"{where}: has a NUL character")
    if isinstance(value, dict):
        for name, inner in value.items():
            if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
                raise UsageError(f"{where}: the name {name[:80]!r} has a control character")
            _check_texts(inner, f"{where}.{name}" if where != "the request" else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _check_texts(inner, f"{where}[{number}]")


def printable(text: str) -> str:
    """A person's words, fit to be stored and shown in one line."""
    return "".join(character if character.isprintable() else " " for character in text).strip()
