"""Documents without pydantic: those that many a command reads, such as a lab's state, recipes, answers.

To import pydantic and to build what checks a lab's state takes 0.08 s of processor time, a quarter of what
`labctl status` takes. The image of the stand-in store has no pydantic at all.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TypeVar, Union, cast, get_args, get_origin, get_type_hints

from lab.api.base import Plain, parse, quoted
from lab.errors import LabError

M = TypeVar("M")
T = TypeVar("T")

_hints = functools.cache(get_type_hints)
_dataclass_fields = functools.cache(dataclasses.fields)


@functools.cache
def _taken_apart(hint: type) -> tuple[type | None, tuple[type, ...]]:
    return get_origin(hint), get_args(hint)


class _MisfitError(Exception):
    """A value that does not fit, at the end of the path in `place`."""

    def __init__(self, why: str, place: str = "") -> None:
        super().__init__(why)
        self.why, self.place = why, place


def restore(model: type[M], data: object) -> M:
    """The dataclass that `dataclasses.asdict`, or a person, made this plain data of.

    A field that is missing has its default, an unknown one is passed over, and no value is converted but a
    whole number where a float is due. Raises ValueError with the path of the first field that does not fit;
    NaN and infinity, which JSON lacks, are no numbers.
    """
    try:
        return cast("M", _value(model, data))
    except _MisfitError as misfit:
        raise ValueError(f"{misfit.place.removeprefix('.')} {misfit.why}".strip()) from misfit
    except (ValueError, LabError) as error:  # of the dataclass itself
        raise ValueError(str(error)) from error


def answer(model: type[M], data: object, what: str, error: type[LabError]) -> M:
    """What `parse` reads of an answer, and says of one that does not fit. Limits are not looked at.

    pydantic is imported for an answer that does not fit, and for a type that is none of `restore`'s.
    """
    try:
        return restore(model, data)
    except (ValueError, TypeError):
        return parse(model, data, what, error, newer=True)


def _at(place: str, hint: type, value: object) -> object:
    try:
        return _value(hint, value)
    except _MisfitError as misfit:
        raise _MisfitError(misfit.why, place + misfit.place) from misfit


def _value(hint: type, value: object) -> object:
    if (hint in (str, bool, int) and type(value) is hint) or hint in (object, Plain):
        return value
    origin, inner = _taken_apart(hint)
    if origin in (Union, types.UnionType):
        return _one_of(inner, value)
    if origin is tuple:
        return tuple(_parts(inner, value))
    if origin is not None and issubclass(origin, Mapping):
        items = _typed(value, Mapping, "an object").items()
        return {_value(inner[0], key): _at(f".{key}", inner[1], part) for key, part in items}
    if dataclasses.is_dataclass(hint):
        return cast("Plain", hint)(**dict(_fields(hint, _typed(value, Mapping, "an object"))))
    if issubclass(hint, Enum):
        return _member(hint, value)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint or (isinstance(value, float) and not math.isfinite(value)):
        raise _misfit(hint.__name__, value)
    return value


def _fields(model: type, document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    hints = _hints(model)
    for field in _dataclass_fields(model):
        if field.name in document:
            yield field.name, _at(f".{field.name}", hints[field.name], document[field.name])
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise _MisfitError("is missing", f".{field.name}")


def _one_of(hints: tuple[type, ...], value: object) -> object:
    known = [hint for hint in hints if hint is not type(None)]
    if value is None and len(known) < len(hints):
        return None
    if len(known) > 1 and type(value) not in known:
        raise _misfit(" or ".join(hint.__name__ for hint in known), value)
    return _value(known[0] if len(known) == 1 else type(value), value)


def _parts(hints: tuple[Plain, ...], value: object) -> Iterator[object]:
    parts = _typed(value, (list, tuple), "a list")
    kinds = hints[:1] * len(parts) if hints[-1] is Ellipsis else hints
    if len(kinds) != len(parts):
        raise _MisfitError(f"should have {len(kinds)} parts, not {len(parts)}")
    for number, (hint, part) in enumerate(zip(kinds, parts, strict=True)):
        yield _at(f"[{number}]", hint, part)


def _member(hint: type[Enum], value: object) -> Enum:
    try:
        return hint(value)
    except ValueError:
        raise _misfit(f"one of {', '.join(str(member.value) for member in hint)}", value) from None


def _typed(value: object, kind: type[T] | tuple[type[T], ...], words: str) -> T:
    if not isinstance(value, kind):
        raise _misfit(words, value)
    return value


def _misfit(wanted: str, value: object) -> _MisfitError:
    return _MisfitError(f"should be {wanted}, not {quoted(value)}")
