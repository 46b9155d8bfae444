"""Objects, and the pods inside, by the schemas of Kubernetes and the CRDs of KubeRay and AppWrapper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lab.flows.kubernetes.clusters import JOB_AT, RayCluster, clusters, inside
from lab.flows.kubernetes.lint.crds import VERSIONS, schema_of
from lab.flows.kubernetes.manifests import ERROR, KUEUE, NOTE, Finding, Manifest, Path_, mapping

RULE = "schema"
KUBERNETES = "1.37"
"""The release whose schemas are asked."""
LONGEST = 200

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
