"""Dataclasses that went through JSON come back as they were; what does not fit is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

import pytest

from lab.api.base import parse
from lab.api.health import HealthView
from lab.api.light import answer, restore
from lab.errors import ClusterError, UsageError


class Colour(str, Enum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    name: str
    colour: Colour = Colour.RED

    def __post_init__(self) -> None:
        if self.name == "none":
            raise UsageError("no part is called none")


@dataclass(frozen=True)
class Whole:
    size: float
    parts: tuple[Part, ...]
    ports: tuple[tuple[str, int], ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    at: float | None = None
    memo: Mapping[str, Any] = field(default_factory=dict)
    on: bool = False
    most: int | float | None = None


WHOLE = Whole(1.5, (Part("a"), Part("b")), (("gcs", 1),), {"for": 2.0}, None, {"keys": [1, "x"]}, True)


def test_what_went_through_json_comes_back() -> None:
    assert restore(Whole, json.loads(json.dumps(asdict(WHOLE)))) == WHOLE


def test_a_missing_field_has_its_default_and_an_unknown_one_is_ignored() -> None:
    assert restore(Whole, {"size": 1, "parts": [], "later": 3}) == Whole(1.0, ())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": "1"}, "size should be float, not '1'"),
        ({"size": float("nan")}, "size should be float, not nan"),
        ({"size": True}, "size should be float, not True"),
        ({"parts": [{"name": "a"}, {"name": 1}]}, "parts[1].name should be str, not 1"),
        ({"parts": [{}]}, "parts[0].name is missing"),
        ({"parts": [{"name": "a", "colour": "blue"}]}, "parts[0].colour should be one of red, not 'blue'"),
        ({"parts": 3}, "parts should be a list, not 3"),
        ({"ports": [["gcs"]]}, "ports[0] should have 2 parts, not 1"),
        ({"limits": {"for": None}}, "limits.for should be float, not None"),
        ({"on": 1}, "on should be bool, not 1"),
        ({"most": True}, "most should be int or float, not True"),
        ({"parts": "x" * 100}, f"parts should be a list, not '{79 * 'x'}…"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_path(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        restore(Whole, {**json.loads(json.dumps(asdict(WHOLE))), **wrong})


@pytest.mark.parametrize("most", [1, 1.5, None])
def test_a_number_stays_what_it_was(most: float | None) -> None:
    assert repr(restore(Whole, {"size": 1, "parts": [], "most": most}).most) == repr(most)


@pytest.mark.parametrize("document", [None, 3, [], "text", {}])
def test_a_document_that_is_none_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"an object|size is missing"):
        restore(Whole, document)


def test_what_the_dataclass_itself_refuses_is_said() -> None:
    with pytest.raises(ValueError, match=r"^no part is called none$"):
        restore(Part, {"name": "none"})


HEALTH = {
    "now": 1,
    "devices": [],
    "symptoms": [],
    "more": 1,
}
"""An answer of the queues' controller, and a field of a newer one."""


def test_an_answer_is_what_parse_makes_of_it() -> None:
    read = answer(HealthView, HEALTH, "the answer", ClusterError)
    assert read == parse(HealthView, HEALTH, "the answer") == HealthView(1.0, (), ())


def test_of_an_answer_that_does_not_fit_every_field_is_named() -> None:
    with pytest.raises(ClusterError) as misfit:
        answer(HealthView, {**HEALTH, "now": "noon", "devices": [{}]}, "the answer", ClusterError)
    assert "now should be a valid number, not 'noon'; devices[0].node is missing" in misfit.value.message


def test_what_labctl_status_reads_needs_no_pydantic() -> None:
    script = f"""
import sys
from lab.api.health import HealthView
from lab.api.light import answer, restore
from lab.errors import ClusterError
from lab.runtime.compose.state import ComposeState
from lab.runtime.local.state import LabState
answer(HealthView, {HEALTH!r}, "it", ClusterError)
for state in (LabState, ComposeState):
    try:
        restore(state, {{}})
    except ValueError:
        pass
sys.exit("pydantic" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
