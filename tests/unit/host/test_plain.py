"""Dataclasses that went through JSON come back as they were; what does not fit is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

import pytest

from lab.host.plain import build


class Colour(str, Enum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    name: str
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Whole:
    size: float
    parts: tuple[Part, ...]
    ports: tuple[tuple[str, int], ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    at: float | None = None
    memo: Mapping[str, Any] = field(default_factory=dict)
    on: bool = False


WHOLE = Whole(1.5, (Part("a"), Part("b")), (("gcs", 1),), {"for": 2.0}, None, {"keys": [1, "x"]}, True)


def test_what_went_through_json_comes_back() -> None:
    assert build(Whole, json.loads(json.dumps(asdict(WHOLE)))) == WHOLE


def test_a_missing_field_has_its_default_and_an_unknown_one_is_ignored() -> None:
    assert build(Whole, {"size": 1, "parts": [], "later": 3}) == Whole(1.0, ())


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": "1"},
        {"size": True},
        {"parts": [{"name": 1}]},
        {"parts": [{"name": "a", "colour": "blue"}]},
        {"parts": 3},
        {"ports": [["gcs"]]},
        {"limits": {"for": None}},
        {"on": 1},
    ],
)
def test_a_value_of_another_kind_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        build(Whole, {**json.loads(json.dumps(asdict(WHOLE))), **wrong})


@pytest.mark.parametrize("document", [None, 3, [], "text", {}])
def test_a_document_that_is_none_is_refused(document: Any) -> None:
    with pytest.raises(TypeError):
        build(Whole, document)
