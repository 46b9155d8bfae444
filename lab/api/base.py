"""Documents from plain data and back. A shape is a frozen dataclass, so that it costs nothing to import.

pydantic is imported by the functions that read a document: `labctl --help` reads none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast

from lab.errors import LabError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

M = TypeVar("M")

Plain: TypeAlias = Any
"""Plain data, as JSON has it: null, texts, numbers, lists and objects."""

Number: TypeAlias = int | float
"""A number that goes out again as it came in: 1 stays 1, and does not become 1.0."""

QUOTED = 80
"""Characters of a value that does not fit, as a message quotes it."""

SHOWN = 3
"""Misfits of one document that a message names."""

WORDS = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "unexpected_keyword_argument": "is unknown",
}
"""Type of one of pydantic's errors -> what is said of the field; else pydantic's message, and the value."""

UNSAID = r"^[A-Z][a-z]+ (?=should)| after validation, not .*"
"""Parts of pydantic's messages that say nothing more."""


class Strict:
    """A shape that takes no unknown fields: of requests, where one that is misspelt would be passed over."""

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}


class Limits:
    """What a value has to keep, as `Annotated[str, Limits(max_length=63)]`.

    Of texts `pattern`, `min_length` and `max_length`; of numbers `ge`, `gt` and `le`; of lists and objects
    both lengths. A pattern is one of JSON Schema, with `^` and `$` where they are meant.
    """

    def __init__(self, **limits: str | float) -> None:
        """`limits` are those of pydantic's core."""
        self._limits = limits

    def __get_pydantic_core_schema__(
        self, source: object, handler: Callable[[object], Mapping[str, object]]
    ) -> Mapping[str, object]:
        return {**handler(source), **self._limits}


def parse(
    model: type[M], data: object, what: str, error: type[LabError] = UsageError, *, newer: bool = False
) -> M:
    """The document that plain data is, such as `parse_json` returns; `what` is its name in messages.

    A field that is missing has its default, an unknown one is passed over (refused by `Strict` shapes), and
    no value is converted: "1" is no number. With `newer` also `Strict` shapes pass unknown ones over:
    an answer may hold what was asked. Raises `error` with the path of each field that does not fit.
    """
    from pydantic import ValidationError

    try:
        text = json.dumps(data, allow_nan=False)
        document: M = _adapter(cast("Plain", model)).validate_json(
            text, strict=True, extra="ignore" if newer else None
        )
    except ValidationError as misfits:
        raise error(_message(list(_lines(misfits.errors(include_url=False))), what)) from misfits
    except (ValueError, TypeError, RecursionError) as misfit:  # not what JSON can hold
        raise error(f"{what}: {misfit}") from misfit
    return document


def plain(document: object) -> Plain:
    """Plain data of a document, its fields in the order of their declaration; the way back is `parse`."""
    if document is None or isinstance(document, str | int | float):  # most values: this is what is fast
        return document
    if is_dataclass(document):
        return {name: plain(value) for name, value in vars(document).items()}
    if isinstance(document, Mapping):
        return {name: plain(value) for name, value in document.items()}
    if isinstance(document, tuple | list):
        return [plain(value) for value in document]
    return document


def schemas(models: Iterable[type[object]]) -> dict[str, Plain]:
    """The JSON Schemas of shapes, and of those inside them, each by its name."""
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: object) -> bool:
            return False

    inputs: Plain = [(model, "validation", _adapter(cast("Plain", model))) for model in models]
    _, made = TypeAdapter.json_schemas(inputs, schema_generator=Untitled)
    return dict(made["$defs"])


@cache
def _adapter(model: Plain) -> TypeAdapter[Plain]:
    from pydantic import TypeAdapter

    return TypeAdapter(model)


def _message(lines: list[str], what: str) -> str:
    more = f" (and {len(lines) - SHOWN} more)" if len(lines) > SHOWN else ""
    return f"{what}: {'; '.join(lines[:SHOWN])}{more}"


def _lines(misfits: list[ErrorDetails]) -> Iterator[str]:
    """Each field that does not fit, and why; of a `Number` what is said of the float that it could be."""
    lines = {_path(misfit["loc"]): _why(misfit) for misfit in misfits}
    return (f"{place} {why}".strip() for place, why in lines.items())


def _why(misfit: ErrorDetails) -> str:
    if misfit["type"] in WORDS:
        return WORDS[misfit["type"]]
    return f"{re.sub(UNSAID, '', misfit['msg'])}, not {quoted(misfit['input'])}"


def quoted(value: object) -> str:
    """A value as a message quotes it."""
    text = repr(value)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"


def _path(location: tuple[int | str, ...]) -> str:
    """`attempts[0].number`, without what pydantic adds: the type of `Number` that it tried, and `[key]`."""
    added = bool(location) and re.fullmatch(r"(constrained-)?(int|float)|\[key\]", str(location[-1]))
    parts = location[:-1] if added else location
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
