"""Objects by the schemas of Kubernetes, and of the CRDs of KubeRay and AppWrapper (crds.json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.ext.kubernetes.documents import ERROR, NOTE, Finding
from lab.ext.kubernetes.manifests import (
    APP_WRAPPER,
    APP_WRAPPERS,
    KUEUE,
    RAY,
    Manifest,
    text,
)
from lab.host.reading import parse_json

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from jsonschema import Draft202012Validator
    from referencing import Registry

CRDS = Path(__file__).with_name("crds.json")
RELEASE = "v1.37.0-local-strict"
"""That of Kubernetes whose schemas are asked."""
LONGEST = 200
"""Characters of a message."""
VERSIONS = {
    **dict.fromkeys(("RayCluster", "RayJob", "RayService", "RayCronJob"), f"{RAY}/v1"),
    APP_WRAPPER: f"{APP_WRAPPERS}/v1beta2",
}
"""Kind -> the version whose specs are in crds.json."""


def check(manifest: Manifest) -> Iterator[Finding]:
    """An object by its schema, those of Kubernetes for the parts that are its own."""
    from jsonschema.exceptions import best_match

    if manifest.group.endswith(KUEUE):
        return  # kueue.reading has their fields
    version = text(manifest.value["apiVersion"])
    validator = validator_of(manifest.kind, version)
    if validator is None:
        message = f"no schema of {version} {manifest.kind} is known: it is not checked"
        yield manifest.finding("no-schema", NOTE, ("kind",), message)
        return
    for error in validator.iter_errors(_without_nulls(manifest.value)):
        deepest = best_match([error])
        yield manifest.finding("schema", ERROR, tuple(deepest.absolute_path), _shorter(deepest.message))


def _without_nulls(value: object) -> object:
    """The value as the API server stores it."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _shorter(message: str) -> str:
    """The same in fewer words: the end of a long message says what was expected."""
    words = message.replace("Additional properties are not allowed", "unknown field")
    words = words.replace(" was unexpected", "").replace(" were unexpected", "")
    return words if len(words) <= LONGEST else f"...{words[-LONGEST:]}"


@cache
def _shipped() -> Mapping[str, Traversable]:
    """The schemas that kubernetes-validate brings, by the names of their files."""
    folder = resources.files("kubernetes_validate") / "kubernetes-json-schema" / RELEASE
    return {file.name: file for file in folder.iterdir()}


@cache
def validator_of(kind: str, version: str) -> Draft202012Validator | None:
    """The validator of a kind; None where there is no schema."""
    from jsonschema import Draft202012Validator

    group, slash, number = version.rpartition("/")
    file = f"{kind.lower()}-{group.partition('.')[0]}{slash and '-'}{number}.json"
    if VERSIONS.get(kind) == version:
        fields: dict[str, object] = {"apiVersion": {}, "kind": {}, "status": {}}
        fields |= {"metadata": {"$ref": "#/$defs/metadata"}, "spec": {"$ref": f"#/$defs/{kind}"}}
        schema = {**_read(CRDS), "type": "object", "properties": fields, "additionalProperties": False}
    elif file in _shipped():
        schema = _read(_shipped()[file])
    else:
        return None
    return Draft202012Validator(schema, registry=_registry())


@cache
def _registry() -> Registry[Any]:
    from referencing import Registry, Resource

    return Resource.from_contents(_read(_shipped()["_definitions.json"])) @ Registry()


def _read(path: Path | Traversable) -> dict[str, Any]:
    schema: dict[str, Any] = parse_json(path.read_bytes())
    return schema
