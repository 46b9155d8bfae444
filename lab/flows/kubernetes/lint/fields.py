"""Fields of KubeRay's objects: what the tables do not have is refused, as by a strict API server."""

from __future__ import annotations

from collections.abc import Iterator

from kueue.reading.nodes import INT32, meant
from lab.flows.kubernetes.clusters import RAY, quantity
from lab.flows.kubernetes.lint.tables import (
    ANY,
    APP_WRAPPERS,
    QUANTITY,
    TABLES,
    TEXT,
    Leaf,
    Many,
    Named,
    Shape,
)
from lab.flows.kubernetes.manifests import ERROR, Finding, Manifest, Path_

RULE = "fields"
OUTER = ("apiVersion", "kind", "metadata", "spec", "status")


def check(manifest: Manifest) -> Iterator[Finding]:
    """Every unknown, missing or wrong field of an object of KubeRay, or of an AppWrapper."""
    key = (manifest.group, manifest.kind)
    if key not in TABLES:
        if manifest.group in (RAY, APP_WRAPPERS):
            known = [kind for group, kind in TABLES if group == manifest.group]
            message = f"{manifest.group} has no {manifest.kind}"
            yield manifest.finding(RULE, ERROR, ("kind",), message, meant(manifest.kind, known))
        return
    version, table = TABLES[key]
    given = str(manifest.value["apiVersion"]).rpartition("/")[2]
    if given != version:
        message = f"{manifest.kind} of {given}: KubeRay 1.7 is written as {version}"
        yield manifest.finding(RULE, ERROR, ("apiVersion",), message, f"write {manifest.group}/{version}")
    for name in manifest.value:
        if name not in OUTER:
            yield manifest.finding(RULE, ERROR, (name,), "unknown field", meant(name, OUTER))
    if not manifest.name:
        yield manifest.finding(RULE, ERROR, ("metadata",), "metadata.name is missing")
    if "spec" not in manifest.value:
        yield manifest.finding(RULE, ERROR, (), "spec is missing")
    else:
        yield from _walk(manifest, ("spec",), manifest.value["spec"], table)


def _walk(manifest: Manifest, path: Path_, value: object, shape: Shape) -> Iterator[Finding]:
    if value is None or shape is ANY:
        return
    if isinstance(shape, Leaf):
        if (wrong := _leaf(value, shape)) is not None:
            yield manifest.finding(RULE, ERROR, path, *wrong)
    elif isinstance(shape, Many):
        if not isinstance(value, list):
            yield manifest.finding(RULE, ERROR, path, f"expected a list, found {_shown(value)}")
            return
        for place, item in enumerate(value):
            yield from _walk(manifest, (*path, place), item, shape.element)
    elif not isinstance(value, dict):
        yield manifest.finding(RULE, ERROR, path, f"expected a mapping, found {_shown(value)}")
    elif isinstance(shape, Named):
        for name, content in value.items():
            yield from _walk(manifest, (*path, name), content, shape.element)
    else:
        for name, content in value.items():
            if name in shape.known:
                yield from _walk(manifest, (*path, name), content, shape.known[name])
            else:
                hint = meant(name, list(shape.known))
                yield manifest.finding(RULE, ERROR, (*path, name), "unknown field", hint)
        for name in shape.required:
            if value.get(name) is None:
                yield manifest.finding(RULE, ERROR, path, f"{name} is missing")


def _leaf(value: object, shape: Leaf) -> tuple[str, str] | None:
    """Words about a value that does not fit, and a hint."""
    message = f"expected {shape.what}, found {_shown(value)}"
    if not isinstance(value, shape.types) or (isinstance(value, bool) and bool not in shape.types):
        scalar = shape is TEXT and not isinstance(value, (dict, list))
        return message, f'write it in quotes: "{_shown(value)}"' if scalar else ""
    if shape is QUANTITY and quantity(value) is None:
        return message, "such as 4, 500m or 3Gi"
    if shape.types == (int,) and not shape.least <= int(str(value)) <= INT32:
        return message, ""
    if shape.words and value not in shape.words:
        return message, meant(str(value), shape.words)
    return None


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "a list" if isinstance(value, list) else "a mapping"
    return str(value).lower() if isinstance(value, bool) else str(value)
