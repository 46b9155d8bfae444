"""Objects, and the pods inside, by the schemas of Kubernetes and the CRDs of KubeRay and AppWrapper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from kueue.reading.nodes import INT32
from lab.ext.kubernetes.clusters import JOB_AT, RAY, RayCluster, clusters, inside
from lab.ext.kubernetes.manifests import (
    APP_WRAPPER,
    APP_WRAPPERS,
    ERROR,
    KUEUE,
    NOTE,
    Finding,
    Manifest,
    Path_,
    mapping,
)

RULE = "schema"
KUBERNETES = "1.37"
"""The release whose schemas are asked."""
LONGEST = 200
"""Characters of a message."""
CRDS = Path(__file__).with_name("crds.txt")
"""What is restated of the CRDs of KubeRay and AppWrapper."""
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

Validate = Callable[[Mapping[str, object]], "tuple[Path_, str] | None"]
"""Says what is wrong with an object of Kubernetes, and where; None when it is right. Raises NoSchemaError."""


class NoSchemaError(Exception):
    """There is no schema for this kind."""


def validator() -> Validate | None:
    """The schemas of the installed kubernetes-validate, which brings jsonschema; None where it is not."""
    try:
        import kubernetes_validate
        from kubernetes_validate.utils import SchemaNotFoundError, ValidationError
    except ImportError:
        return None

    def validate(value: Mapping[str, object]) -> tuple[Path_, str] | None:
        try:
            kubernetes_validate.validate(dict(value), KUBERNETES, strict=True)
        except SchemaNotFoundError as error:
            raise NoSchemaError from error
        except ValidationError as error:
            deepest = min(error.context or [error], key=lambda suberror: -len(suberror.absolute_path))
            return tuple(error.absolute_path) or tuple(deepest.absolute_path), str(deepest.message)
        return None

    return validate


def check(manifest: Manifest, validate: Validate) -> Iterator[Finding]:
    """An object by its schema, and the parts of it that are Kubernetes' own by theirs."""
    if manifest.group.endswith(KUEUE):
        return  # kueue.reading has their fields
    if VERSIONS.get(manifest.kind) == manifest.value["apiVersion"]:
        yield from _custom(manifest)
        for cluster in clusters(manifest):
            yield from _cluster(cluster, validate)
        yield from _submitter(manifest, validate)
        return
    try:
        wrong = validate(manifest.value)
    except NoSchemaError:
        message = f"no schema of {manifest.value['apiVersion']} {manifest.kind} is known: it is not checked"
        yield manifest.finding("no-schema", NOTE, ("kind",), message)
        return
    if wrong is not None:
        yield manifest.finding(RULE, ERROR, *_wrong(*wrong))


def _custom(manifest: Manifest) -> Iterator[Finding]:
    from jsonschema import Draft202012Validator

    value = _without_nulls(manifest.value)
    for error in Draft202012Validator(schema_of(manifest.kind)).iter_errors(value):
        yield manifest.finding(RULE, ERROR, *_wrong(tuple(error.absolute_path), error.message))


def _without_nulls(value: object) -> object:
    """The value as the API server stores it."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _cluster(cluster: RayCluster, validate: Validate) -> Iterator[Finding]:
    manifest = cluster.manifest
    for group in cluster.groups:
        if group.template:
            yield from _part(
                manifest, (*group.path, "template"), pod_template(group.template), ("template",), validate
            )
    if service := mapping(cluster.groups[0].value.get("headService")):
        whole = {"apiVersion": "v1", "kind": "Service", **service}
        yield from _part(manifest, (*cluster.groups[0].path, "headService"), whole, (), validate)
    names = ("image", "imagePullPolicy", "resources", "env", "envFrom", "volumeMounts", "securityContext")
    options = cluster.autoscaler_options
    container = {name: options[name] for name in names if options.get(name) is not None}
    if container:
        inner: Path_ = ("template", "spec", "containers", 0)
        whole = pod_template({"spec": {"containers": [{"name": "autoscaler", **container}]}})
        yield from _part(manifest, (*cluster.path, "autoscalerOptions"), whole, inner, validate)


def _submitter(manifest: Manifest, validate: Validate) -> Iterator[Finding]:
    at = JOB_AT.get(manifest.kind)
    if at is not None and (template := mapping(inside(manifest.value, at).get("submitterPodTemplate"))):
        path = (*at, "submitterPodTemplate")
        yield from _part(manifest, path, pod_template(template), ("template",), validate)


def pod_template(template: Mapping[str, object]) -> dict[str, object]:
    """A pod template as an object of its own."""
    metadata = {key: value for key, value in mapping(template.get("metadata")).items() if value is not None}
    whole = {**template, "metadata": metadata} if metadata or "metadata" in template else dict(template)
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "inside"}, "template": whole}


def _part(
    manifest: Manifest, at: Path_, value: Mapping[str, object], outer: Path_, validate: Validate
) -> Iterator[Finding]:
    """A part of an object, which stands at `outer` in `value`."""
    if (wrong := validate(value)) is not None:
        path, message = _wrong(*wrong)
        inner = path[len(outer) :] if path[: len(outer)] == outer else ()
        yield manifest.finding(RULE, ERROR, (*at, *inner), message)


def _wrong(path: Path_, message: str) -> tuple[Path_, str]:
    """The same in fewer words: the end of a long message says what was expected."""
    words = message.replace("Additional properties are not allowed", "unknown field")
    words = words.replace(" was unexpected", "").replace(" were unexpected", "")
    return path, words if len(words) <= LONGEST else f"...{words[-LONGEST:]}"


# The CRDs


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
    for line in CRDS.read_text(encoding="utf-8").splitlines():
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
