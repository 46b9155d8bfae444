"""Documents from plain data: types are checked, not converted, and a misfit is named by its path."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from lab.api.base import Limits, Number, Strict, parse, plain, schemas
from lab.errors import ClusterError, UsageError
from tests.conftest import ROOT


@dataclass(frozen=True)
class Part:
    name: str
    amounts: Mapping[str, Number] = field(default_factory=dict)
    at: float | None = None


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    ready: bool = False


@dataclass(frozen=True)
class Asked(Strict):
    name: Annotated[str, Limits(pattern="^[a-z]+$")]
    count: Annotated[int, Limits(ge=1)] = 1
    labels: Annotated[Mapping[Annotated[str, Limits(max_length=3)], str], Limits(max_length=1)] = field(
        default_factory=dict
    )
    seconds: Annotated[int, Limits(ge=0)] | Annotated[float, Limits(ge=0)] = 0
    words: Annotated[tuple[str, ...], Limits(min_length=1)] = ("a",)


DOCUMENT = {"parts": [{"name": "a", "amounts": {"cpu": 1.0, "gpu": 1}, "at": None}], "ready": True}


def test_a_document_goes_there_and_back() -> None:
    whole = parse(Whole, DOCUMENT, "the answer")
    assert whole == Whole((Part("a", {"cpu": 1.0, "gpu": 1}),), ready=True)
    assert repr(plain(whole)) == repr(DOCUMENT), "1 stays 1, and 1.0 stays 1.0, in the same order"


def test_fields_of_a_newer_version_are_passed_over_and_missing_ones_have_their_default() -> None:
    assert parse(Whole, {"parts": [{"name": "a", "colour": "red"}], "more": 1}, "it") == Whole((Part("a"),))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"parts": [{"name": 1}]}, "the answer: parts[0].name should be a valid string, not 1"),
        ({"parts": [{}]}, "the answer: parts[0].name is missing"),
        ({"parts": [], "ready": "yes"}, "the answer: ready should be a valid boolean, not 'yes'"),
        ([], "the answer: should be an object, not []"),
        ({"parts": [{"name": "a", "at": float("nan")}]}, "the answer: Out of range float values are not"),
    ],
)
def test_a_wrong_type_is_named_with_its_path(document: Any, message: str) -> None:
    with pytest.raises(ClusterError) as refused:
        parse(Whole, document, "the answer", ClusterError)
    assert refused.value.message.startswith(message)


def test_a_number_that_is_none_is_named_once() -> None:
    with pytest.raises(UsageError) as refused:
        parse(Part, {"name": "a", "amounts": {"cpu": "much"}}, "it")
    assert refused.value.message == "it: amounts.cpu should be a valid number, not 'much'"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"name": "a", "colour": 1}, "it: colour is unknown"),
        ({"name": "A"}, "it: name should match pattern '^[a-z]+$', not 'A'"),
        ({"name": "a\n"}, r"it: name should match pattern '^[a-z]+$', not 'a\n'"),
        ({"name": "a", "count": 0}, "it: count should be greater than or equal to 1, not 0"),
        (
            {"name": "a", "labels": {"long": ""}},
            "it: labels.long should have at most 3 characters, not 'long'",
        ),
        (
            {"name": "a", "labels": {"a": "", "b": ""}},
            "it: labels should have at most 1 item, not {'a': '', 'b': ''}",
        ),
        ({"name": "a", "seconds": -1}, "it: seconds should be greater than or equal to 0, not -1"),
        ({"name": "a", "words": []}, "it: words should have at least 1 item, not []"),
        ({"name": "a", "count": 2.0}, "it: count should be a valid integer, not 2.0"),
        ({"name": "a" * 3 + "B" * 99}, f"it: name should match pattern '^[a-z]+$', not 'aaa{'B' * 76}…"),
    ],
)
def test_what_is_asked_has_no_unknown_fields_and_keeps_its_limits(
    document: Mapping[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        parse(Asked, document, "it")
    assert refused.value.message == message


def test_what_was_asked_may_have_fields_of_a_newer_version_in_an_answer() -> None:
    assert parse(Asked, {"name": "a", "colour": 1}, "it", newer=True) == Asked("a")


def test_the_schema_says_the_same() -> None:
    made = schemas([Asked])["Asked"]
    assert made["additionalProperties"] is False
    assert made["properties"]["name"]["pattern"] == "^[a-z]+$"
    assert made["properties"]["count"]["minimum"] == 1


def test_help_imports_no_pydantic() -> None:
    script = (
        "import sys, lab.api.health, lab.api.queue, lab.api.quotas\n"
        "from lab.cli.main import cli\n"
        "cli.main(['queue', '--help'], standalone_mode=False)\n"
        "sys.exit('pydantic' in sys.modules)\n"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
