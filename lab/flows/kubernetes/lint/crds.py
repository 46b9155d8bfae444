"""JSON Schemas of KubeRay's objects and of AppWrapper: what crds.txt restates of their CRDs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from kueue.reading.nodes import INT32
from lab.flows.kubernetes.clusters import RAY
from lab.flows.kubernetes.manifests import APP_WRAPPER, APP_WRAPPERS

FILE = Path(__file__).with_suffix(".txt")
VERSIONS = {
    **dict.fromkeys(("RayCluster", "RayJob", "RayService", "RayCronJob"), f"{RAY}/v1"),
    APP_WRAPPER: f"{APP_WRAPPERS}/v1beta2",
}
"""Kind -> the version that the schemas are of."""

Schema: TypeAlias = dict[str, Any]
TYPES: dict[str, Schema] = {
    **{name: {"type": name} for name in ("string", "number", "boolean")},
    "quantity": {"type": ["string", "number"]},
    "any": {},
}


@cache
def schema_of(kind: str) -> Schema:
    """The schema of an object of this kind."""
    spec = {"$ref": f"#/$defs/{kind}"}
    fields = {"apiVersion": {}, "kind": {}, "metadata": {"type": "object"}, "spec": spec, "status": {}}
    return {**_mapping(fields), "$defs": specs()}


@cache
def specs() -> Schema:
    """Kind -> the schema of its spec."""
    root = _mapping({})
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        path, *words = line.split()
        outer, place, name = root, root, ""
        for name in path.replace("[]", ".[]").split("."):
            outer, place = place, _inner(place, name)
        if words[-1] == "required":
            words.pop()
            outer.setdefault("required", []).append(name)
        for word in words:
            place.update(_leaf(word))
    kinds: Schema = root["properties"]
    return kinds


def _mapping(fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "additionalProperties": False}


def _inner(schema: Schema, name: str) -> Schema:
    """The schema of a field, of the entries of a list, or of a mapping with any names."""
    if name == "[]":
        schema["type"] = "array"
        inner: Schema = schema.setdefault("items", {})
    elif name == "*":
        schema["type"] = "object"
        inner = schema.setdefault("additionalProperties", {})
    else:
        if "properties" not in schema:
            schema.update(_mapping({}))
        inner = schema["properties"].setdefault(name, {})
    return inner


def _leaf(word: str) -> Schema:
    name, _, least = word.partition(">=")
    if name == "integer":
        return {"type": name, "minimum": int(least or -INT32 - 1), "maximum": INT32}
    if name in VERSIONS:
        return {"$ref": f"#/$defs/{name}"}
    return TYPES.get(name, {"enum": name.split("|")})
