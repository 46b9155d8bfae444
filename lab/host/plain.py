"""Dataclasses from plain data: the way back from JSON of what `dataclasses.asdict` made."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

_hints = functools.cache(get_type_hints)


def build(kind: type[T], document: Any) -> T:
    """The dataclass `kind` with these fields; a missing one has its default, an unknown one is ignored.

    Raises ValueError, TypeError, KeyError, or what `kind` raises, where the document does not fit.
    """
    hints, values = _hints(cast("Any", kind)), dict[str, Any]()
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if field.name in document:
            values[field.name] = _value(hints[field.name], document[field.name])
    return kind(**values)


def _value(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):  # of one type and None
        return None if value is None else _value(inner[0], value)
    if origin is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(_value(kind, part) for kind, part in zip(kinds, value, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {_value(inner[0], key): _value(inner[1], content) for key, content in value.items()}
    if dataclasses.is_dataclass(hint):
        return build(hint, value)  # type: ignore[arg-type]
    if issubclass(hint, Enum):
        return hint(value)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise TypeError(f"{value!r} is not {hint.__name__}")
    return value
