"""The JSON Schemas that the project ships are those of the shapes, and say what the shapes refuse."""

from __future__ import annotations

import dataclasses
import json
from importlib import import_module

import jsonschema
from typing_extensions import is_typeddict

from lab.api import __main__
from lab.extension import ours
from tests.conftest import ROOT

MODULES = [import_module(name) for extension in ours() for name in extension.documents]
FILE = ROOT / "lab" / "api" / "schema.json"


def test_the_file_is_what_the_shapes_make() -> None:
    assert FILE.read_text(encoding="utf-8") == __main__.text(), "python -m lab.api > lab/api/schema.json"


def test_it_is_a_schema_of_every_shape() -> None:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(document)
    shapes = {
        name
        for module in MODULES
        for name, value in vars(module).items()
        if (dataclasses.is_dataclass(value) or is_typeddict(value)) and value.__module__ == module.__name__
    }
    assert set(document["$defs"]) == shapes | {"Verdict"}


def test_what_is_asked_may_have_no_unknown_fields_and_what_is_answered_may() -> None:
    defs = json.loads(FILE.read_text(encoding="utf-8"))["$defs"]
    assert defs["JobRequest"]["additionalProperties"] is False
    assert defs["JobRequest"]["required"] == ["command"]
    assert "additionalProperties" not in defs["Listing"]
