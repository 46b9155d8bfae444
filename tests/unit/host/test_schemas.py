"""Documents against schemas: where something does not fit, and what."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from lab.host.schemas import load_schema, misfits

SCHEMA = {
    "type": "object",
    "required": ["rows"],
    "additionalProperties": False,
    "properties": {
        "rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        "seconds": {"type": "number"},
    },
}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"rows": [{"n": 1}], "seconds": 2}, []),
        ([], ["the list: [] is not of type 'object'"]),
        ({}, ["the list: 'rows' is a required property"]),
        ({"rows": [{"n": 1}, {"n": "x"}]}, ["rows[1].n: 'x' is not of type 'integer'"]),
        ({"rows": [{"n": 2.0}]}, ["rows[0].n: 2.0 is not of type 'integer'"]),
        ({"rows": [{"n": True}]}, ["rows[0].n: True is not of type 'integer'"]),
        ({"rows": [], "seconds": float("nan")}, ["seconds: nan is not of type 'number'"]),
        ({"rows": [], "seconds": float("-inf")}, ["seconds: -inf is not of type 'number'"]),
        ({"rows": [], "seconds": 10**400}, []),
    ],
)
def test_a_misfit_is_named_with_its_place(document: Any, told: list[str]) -> None:
    assert list(misfits(document, SCHEMA, "the list")) == told


def test_a_long_value_is_cut_and_what_is_wrong_with_it_stays() -> None:
    (line,) = misfits({"rows": "\x1b" * 400}, SCHEMA, "the list")
    assert line.startswith(r"rows: '\x1b\x1b")
    assert line.endswith("… is not of type 'array'")
    assert line.isprintable()
    assert len(line) < 200


def test_fields_of_a_newer_version_fit_where_they_may() -> None:
    document = {"rows": [], "more": 1}
    (line,) = misfits(document, SCHEMA, "the list")
    assert "'more' was unexpected" in line
    assert list(misfits(document, SCHEMA, "the list", more_fields=True)) == []


@pytest.mark.parametrize("package", ["lab.daemons.queue"])
def test_the_projects_schemas_are_schemas(package: str) -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema(package))


@pytest.mark.parametrize(("text", "fits"), [("abc", True), ("abc\n", False), ("ab\nc", False), ("", True)])
def test_a_pattern_ends_where_the_text_ends(text: str, fits: bool) -> None:
    """Python's `$` would let a line feed follow."""
    schema = {"type": "string", "pattern": "^[a-c]*$"}
    assert (not list(misfits(text, schema, "it"))) is fits
