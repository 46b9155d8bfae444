"""Fields of KubeRay's objects: what the tables do not have is refused, as by a strict API server.

The tables are in fields.txt. Pod templates are not among them: lab.flows.kubernetes.lint.schemas has the
schemas of Kubernetes for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from kueue.reading.nodes import INT32, meant
from lab.flows.kubernetes.clusters import RAY, quantity
from lab.flows.kubernetes.manifests import APP_WRAPPER, APP_WRAPPERS, ERROR, Finding, Manifest, Path_

RULE = "fields"
FILE = Path(__file__).with_suffix(".txt")
VERSIONS: Mapping[tuple[str, str], str] = {
    **dict.fromkeys(((RAY, kind) for kind in ("RayCluster", "RayJob", "RayService", "RayCronJob")), "v1"),
    (APP_WRAPPERS, APP_WRAPPER): "v1beta2",
}
"""(group, kind) that the tables have -> the version that they are of."""

OUTER = ("apiVersion", "kind", "metadata", "spec", "status")
ENTRY, ANY_NAME, ANYTHING = "[]", "*", "any"
TYPES: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a text", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "quantity": ("a quantity", (str, int, float)),
}
"""Type of a field -> its words, and those of Python; every other type is a choice of words."""


@dataclass
class Field:
    """A field: its type; without one the fields of a mapping, or under ENTRY that of a list."""

    type: str = ""
    inner: dict[str, Field] = field(default_factory=dict)
    required: bool = False


@cache
def tables() -> Mapping[str, Field]:
    """Kind -> its spec."""
    root = Field()
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        path, *words = line.split()
        place = root
        for part in path.replace(ENTRY, f".{ENTRY}").split("."):
            place = place.inner.setdefault(part, Field())
        place.required = "required" in words
        place.type = words[0] if words != ["required"] else ""
    return root.inner


def check(manifest: Manifest) -> Iterator[Finding]:
    """Every unknown, missing or wrong field of an object of KubeRay, or of an AppWrapper."""
    version = VERSIONS.get((manifest.group, manifest.kind))
    if version is None:
        if manifest.group in (RAY, APP_WRAPPERS):
            known = [kind for group, kind in VERSIONS if group == manifest.group]
            message = f"{manifest.group} has no {manifest.kind}"
            yield manifest.finding(RULE, ERROR, ("kind",), message, meant(manifest.kind, known))
        return
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
        yield from _walk(manifest, ("spec",), manifest.value["spec"], tables()[manifest.kind])


def _walk(manifest: Manifest, path: Path_, value: object, table: Field) -> Iterator[Finding]:
    table = tables().get(table.type, table)  # a field may be the spec of another kind
    if value is None or table.type == ANYTHING:
        return
    if table.type:
        if (wrong := _leaf(value, table.type)) is not None:
            yield manifest.finding(RULE, ERROR, path, *wrong)
    elif ENTRY in table.inner:
        if not isinstance(value, list):
            yield manifest.finding(RULE, ERROR, path, f"expected a list, found {_shown(value)}")
            return
        for place, item in enumerate(value):
            yield from _walk(manifest, (*path, place), item, table.inner[ENTRY])
    elif not isinstance(value, dict):
        yield manifest.finding(RULE, ERROR, path, f"expected a mapping, found {_shown(value)}")
    else:
        for name, content in value.items():
            inner = table.inner.get(name) or table.inner.get(ANY_NAME)
            if inner is not None:
                yield from _walk(manifest, (*path, name), content, inner)
            else:
                hint = meant(name, list(table.inner))
                yield manifest.finding(RULE, ERROR, (*path, name), "unknown field", hint)
        for name, inner in table.inner.items():
            if inner.required and value.get(name) is None:
                yield manifest.finding(RULE, ERROR, path, f"{name} is missing")


def _leaf(value: object, kind: str) -> tuple[str, str] | None:
    """Words about a value that is not of this type, and a hint."""
    name, _, least = kind.partition(">=")
    words = kind.split("|")
    what, types = TYPES.get(name, (f"one of {', '.join(words)}", (str,)))
    what += f" of at least {least}" if least else ""
    message = f"expected {what}, found {_shown(value)}"
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        scalar = name == "string" and not isinstance(value, (dict, list))
        return message, f'write it in quotes: "{_shown(value)}"' if scalar else ""
    if name == "quantity" and quantity(value) is None:
        return message, "such as 4, 500m or 3Gi"
    if types == (int,) and not int(least or -INT32 - 1) <= int(str(value)) <= INT32:
        return message, ""
    if name not in TYPES and value not in words:
        return message, meant(str(value), words)
    return None


def _shown(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "a list" if isinstance(value, list) else "a mapping"
    return str(value).lower() if isinstance(value, bool) else str(value)
