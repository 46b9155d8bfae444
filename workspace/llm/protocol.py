"""OpenAI's form of completions: what a request says, and what an answer looks like, whole or as a stream.

A prompt is text, or a list of tokens, which here are bytes. `return_token_ids` (vLLM's name) adds the bytes
to each part of the answer: not every byte is a character.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine import Request
from model import END


class ApiError(Exception):
    """A request that is refused, with its HTTP status and OpenAI's words."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error",
                 param: str | None = None, code: str | None = None) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.document = {"error": {"message": message, "type": kind, "param": param, "code": code}}


@dataclass(frozen=True)
class Source:
    """The origin of an answer."""

    model: str
    """The name that requests give."""
    checkpoint: str
    """SHA-256."""


@dataclass(frozen=True)
class Wanted:
    """A request for a completion."""

    request: Request
    stream: bool
    include_usage: bool
    token_ids: bool


_FIELDS: dict[str, tuple[tuple[type, ...], Any]] = {
    "max_tokens": ((int,), 16),
    "temperature": ((int, float), 1.0),
    "top_k": ((int,), 0),
    "seed": ((int,), 0),
    "ignore_eos": ((bool,), False),
    "stream": ((bool,), False),
    "return_token_ids": ((bool,), False),
}
"""Field -> the types of its value, and the value where the field is missing or null."""

_FIXED = {"n": 1, "best_of": 1, "echo": False, "logprobs": None, "suffix": None, "stop": None, "top_p": 1,
          "presence_penalty": 0, "frequency_penalty": 0, "logit_bias": None}  # fmt: skip
"""Fields of OpenAI's that are taken with this value alone: to ignore another one would be a wrong answer."""


def read(body: bytes, model: str, number: str) -> Wanted:
    """The request in a body of JSON, under the id `number`. Raises ApiError for one that is refused."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise ApiError(400, "the body is not a JSON object")
    if said.get("model", model) != model:
        raise ApiError(404, f"there is no model {said['model']!r}, but {model!r}", "invalid_request_error",
                       "model", "model_not_found")  # fmt: skip
    for name, only in _FIXED.items():
        if said.get(name, only) not in (only, None):
            raise ApiError(400, f"{name}: only {json.dumps(only)} is supported", param=name)
    values = {name: _value(said, name, types, missing) for name, (types, missing) in _FIELDS.items()}
    if values["top_k"] == -1:  # vLLM's word for all
        values["top_k"] = 0
    options = said.get("stream_options") or {}
    if not isinstance(options, dict):
        raise ApiError(400, "stream_options must be an object", param="stream_options")
    request = Request(
        number, _prompt(said.get("prompt")), values["max_tokens"], float(values["temperature"]),
        values["top_k"], values["seed"], values["ignore_eos"],
    )  # fmt: skip
    return Wanted(request, values["stream"], bool(options.get("include_usage")), values["return_token_ids"])


def _value(said: Mapping[str, Any], name: str, types: tuple[type, ...], missing: Any) -> Any:
    value = said.get(name)
    if value is None:
        return missing
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ApiError(400, f"{name} must be {' or '.join(t.__name__ for t in types)}", param=name)
    return value


def _prompt(given: Any) -> tuple[int, ...]:
    if isinstance(given, str):
        return tuple(given.encode())
    if isinstance(given, list) and all(isinstance(t, int) and not isinstance(t, bool) for t in given):
        return tuple(given)
    raise ApiError(400, "prompt must be text, or a list of bytes", param="prompt")


class Text:
    """Bytes that come by and by, as text: a character is given out when its last byte is there."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, tokens: Sequence[int], last: bool) -> str:
        """The text that these bytes complete. END is none."""
        return self._decoder.decode(bytes(token for token in tokens if token != END), last)


def completion(wanted: Wanted, source: Source, created: int, text: str, tokens: Sequence[int],
               finish: str | None, usage: bool) -> dict[str, Any]:  # fmt: skip
    """A completion, or a part of one that is streamed. With `usage`, `tokens` are all of the answer's."""
    choice: dict[str, Any] = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    if wanted.token_ids:
        choice["token_ids"] = list(tokens)
    document = {**_head(wanted, source, created), "choices": [choice]}
    return {**document, "usage": counted(wanted, len(tokens))} if usage else document


def usage_part(wanted: Wanted, source: Source, created: int, count: int) -> dict[str, Any]:
    """The last part of a stream with `include_usage`: it has no choices."""
    return {**_head(wanted, source, created), "choices": [], "usage": counted(wanted, count)}


def _head(wanted: Wanted, source: Source, created: int) -> dict[str, Any]:
    """The fields that every part of an answer begins with."""
    return {"id": wanted.request.id, "object": "text_completion", "created": created, "model": source.model,
            "system_fingerprint": source.checkpoint}  # fmt: skip


def counted(wanted: Wanted, count: int) -> dict[str, int]:
    """The numbers of tokens of a prompt and its answer."""
    given = len(wanted.request.prompt)
    return {"prompt_tokens": given, "completion_tokens": count, "total_tokens": given + count}


def models(model: str, created: int, context: int) -> dict[str, Any]:
    """The list of models, of which there is one."""
    card = {
        "id": model,
        "object": "model",
        "created": created,
        "owned_by": "raylab",
        "max_model_len": context,
    }
    return {"object": "list", "data": [card]}


def event(document: Mapping[str, Any]) -> bytes:
    """A document as a server-sent event."""
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
"""The end of every stream that is complete."""
