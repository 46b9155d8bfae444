"""Validates JSON documents against the project's own schemas: the `schema.json` of a package."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from lab.host.reading import parse_json

QUOTED = 80
"""Characters of a value that does not fit, as a message quotes it."""


@cache
def load_schema(package: str) -> dict[str, Any]:
    """The `schema.json` of a package such as `lab.flows.lessons`."""
    loaded: dict[str, Any] = parse_json(files(package).joinpath("schema.json").read_bytes())
    return loaded


def misfits(
    document: Any, schema: Mapping[str, Any], name: str, *, more_fields: bool = False
) -> Iterator[str]:
    """Each place in `document` that does not fit `schema`, and what is wrong there, a line each.

    `name` stands for the whole document. With `more_fields`, unknown fields fit: a newer labctl may add some.
    Stricter than JSON Schema: 2.0 is no integer; NaN and infinity, which JSON lacks, are no numbers.
    """
    for error in _validator()(schema).iter_errors(document):
        if not (more_fields and error.validator == "additionalProperties"):
            where = error.json_path.removeprefix("$").removeprefix(".") or name
            value = repr(error.instance)
            quoted = value if len(value) <= QUOTED else f"{value[:QUOTED]}…"
            yield f"{where}: {error.message.replace(value, quoted)}"


@cache
def _validator() -> Callable[..., Any]:
    """The validator's class; making it takes milliseconds."""
    from jsonschema import Draft202012Validator, validators

    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
    extend: Callable[..., Any] = validators.extend
    made: Callable[..., Any] = extend(Draft202012Validator, {"pattern": _fits}, type_checker=types)
    return made


def _fits(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    """Tell what does not match; a last `$` is the end, as for JSON Schema, and no line feed may follow it."""
    from jsonschema import ValidationError

    ended = re.sub(r"\$$", r"\\Z", pattern)
    if validator.is_type(instance, "string") and not re.search(ended, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _is_integer(_: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(_: object, value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -math.inf < value < math.inf
