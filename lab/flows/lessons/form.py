"""Whether a document has the form that schema.json says, by the words of JSON Schema that it uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lab.host.reading import parse_json

TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}

KNOWN = frozenset(
    ("$schema", "$defs", "$ref", "title", "description", "type", "const", "required", "properties")
) | frozenset(("additionalProperties", "items", "minItems", "minLength", "minimum", "pattern"))
"""The words of JSON Schema that schema.json may use."""


@cache
def schema() -> dict[str, Any]:
    """The schema of a report; that of a result is its `$defs/result`."""
    loaded: dict[str, Any] = parse_json((Path(__file__).parent / "schema.json").read_text(encoding="utf-8"))
    return loaded


def misfits(document: Any, form: Mapping[str, Any] | None = None, where: str = "") -> Iterator[str]:
    """What in `document` does not have this form (by default a report's), a line each."""
    form = schema() if form is None else form
    if "$ref" in form:
        form = schema()["$defs"][form["$ref"].rpartition("/")[2]]
    at = where or "the report"
    if "const" in form and document != form["const"]:
        yield f"{at} is {document!r}, not {form['const']!r}"
        return
    kind = form.get("type")
    if kind is not None and not _is(document, kind):
        yield f"{at} is not of type {kind}"
        return
    if len(document) < form.get("minItems", 0) if isinstance(document, list) else False:
        yield f"{at} is empty"
    if len(document) < form.get("minLength", 0) if isinstance(document, str) else False:
        yield f"{at} is empty"
    if isinstance(document, str) and not re.search(form.get("pattern", ""), document):
        yield f"{at} is not written as it should be"
    if isinstance(document, (int, float)) and document < form.get("minimum", document):
        yield f"{at} is less than {form['minimum']}"
    if isinstance(document, dict):
        known = form.get("properties", {})
        yield from (f"{at} has no {name!r}" for name in form.get("required", ()) if name not in document)
        if form.get("additionalProperties") is False:
            yield from (f"{at} has an unknown {name!r}" for name in document if name not in known)
        for name, inner in known.items():
            if name in document:
                yield from misfits(document[name], inner, f"{where}.{name}".lstrip("."))
    if isinstance(document, list) and "items" in form:
        for number, each in enumerate(document):
            yield from misfits(each, form["items"], f"{where}[{number}]")


def _is(document: Any, kind: str) -> bool:
    if isinstance(document, bool) and kind != "boolean":
        return False
    return isinstance(document, TYPES[kind])
