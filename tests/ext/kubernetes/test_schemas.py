"""Each part of an object is held against the schema that is its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema
import pytest

from lab.ext.kubernetes.lint.schemas import LONGEST, NoSchemaError, schema_of, validator
from tests.conftest import ROOT
from tests.ext.kubernetes.made import (
    Object,
    batch_job,
    changed,
    checked,
    cluster,
    job,
    pod,
    rules,
    wrapper,
)


class Schemas:
    """Schemas that know some kinds, and refuse what the field `bad` stands in."""

    def __init__(self, unknown: str = "PodMonitor") -> None:
        self.unknown, self.asked = unknown, list[str]()

    def __call__(self, value: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str] | None:
        self.asked.append(value["kind"])
        if value["kind"] == self.unknown:
            raise NoSchemaError
        path = self._bad(value, ())
        return (
            None if path is None else (path, "Additional properties are not allowed ('bad' was unexpected)")
        )

    def _bad(self, value: Any, path: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
        inner = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        if isinstance(value, dict) and "bad" in value:
            return path
        return next((problem for key, value in inner if (problem := self._bad(value, (*path, key)))), None)


@pytest.mark.parametrize(
    ("good", "change", "path"),
    [
        (
            cluster(),
            lambda m: m["spec"]["workerGroupSpecs"][0]["template"]["spec"].update(bad=1),
            "spec.workerGroupSpecs[0].template.spec",
        ),
        (
            cluster(),
            lambda m: m["spec"]["headGroupSpec"].update(headService={"spec": {"bad": 1}}),
            "spec.headGroupSpec.headService.spec",
        ),
        (
            cluster(),
            lambda m: m["spec"].update(autoscalerOptions={"resources": {"bad": 1}}),
            "spec.autoscalerOptions.resources",
        ),
        (
            job(),
            lambda m: m["spec"].update(submitterPodTemplate={**pod(), "bad": 1}),
            "spec.submitterPodTemplate",
        ),
        (
            wrapper(cluster()),
            lambda m: m["spec"]["components"][0]["template"]["spec"]["headGroupSpec"]["template"].update(
                bad=1
            ),
            "spec.components[0].template.spec.headGroupSpec.template",
        ),
    ],
)
def test_the_parts_of_kubernetes_inside_of_rays_objects_are_checked(
    good: Object, change: Any, path: str
) -> None:
    report = checked([changed(good, change)], Schemas())
    errors = [error for error in report.errors if error.rule == "schema"]
    assert [(error.path, error.message) for error in errors] == [(path, "unknown field ('bad')")]


def test_an_object_without_a_schema_is_a_note() -> None:
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": {"name": "m"}}
    report = checked([monitor], Schemas())
    assert (rules(report), report.errors) == ({"no-schema"}, ())


def test_objects_of_kueue_are_not_asked_about() -> None:
    schemas = Schemas()
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}}
    checked([flavor], schemas)
    assert schemas.asked == []


def test_what_could_not_be_asked_is_told() -> None:
    (words,) = checked([cluster()]).not_asked
    assert words.startswith("schemas of Kubernetes and KubeRay: ")
    assert checked([cluster()], Schemas()).not_asked == ()


# The CRDs


def test_every_crd_is_a_json_schema() -> None:
    for kind in ("RayCluster", "RayJob", "RayService", "RayCronJob", "AppWrapper"):
        jsonschema.Draft202012Validator.check_schema(schema_of(kind))


def workers(manifest: Object) -> Object:
    group: Object = manifest["spec"]["workerGroupSpecs"][0]
    return group


BROKEN: list[tuple[Callable[[Object], Any], str, str]] = [
    (lambda m: m["spec"].update(rayversion="2.60.0"), "spec", "unknown field ('rayversion')"),
    (lambda m: m["spec"].update(rayVersion=2.6), "spec.rayVersion", "2.6 is not of type 'string'"),
    (
        lambda m: workers(m)["rayStartParams"].update({"num-gpus": 1}),
        "spec.workerGroupSpecs[0].rayStartParams.num-gpus",
        "1 is not of type 'string'",
    ),
    (lambda m: m["spec"].pop("headGroupSpec"), "spec", "'headGroupSpec' is a required property"),
    (lambda m: m["spec"].update(headGroupSpec=None), "spec", "'headGroupSpec' is a required property"),
    (lambda m: m["spec"].update(workerGroupSpecs={}), "spec.workerGroupSpecs", "{} is not of type 'array'"),
    (lambda m: workers(m).update(replicas=True), "spec.workerGroupSpecs[0].replicas", "not of type 'int"),
    (lambda m: workers(m).update(replicas=2**31), "spec.workerGroupSpecs[0].replicas", "greater than"),
    (lambda m: m["spec"].update(suspend="no"), "spec.suspend", "'no' is not of type 'boolean'"),
    (
        lambda m: m["spec"].update(authOptions={"mode": "tokens"}),
        "spec.authOptions.mode",
        "'tokens' is not one of ['disabled', 'token']",
    ),
    (lambda m: m.update(specs={}), "", "unknown field ('specs')"),
]  # fmt: skip
"""What is changed in a good cluster, the path of the finding, and a part of its message."""


@pytest.mark.parametrize(("change", "path", "message"), BROKEN)
def test_what_the_crd_does_not_take_is_told(change: Any, path: str, message: str) -> None:
    (error,) = checked([changed(cluster(), change)], Schemas()).errors
    assert (error.rule, error.path) == ("schema", path)
    assert message in error.message


def test_a_message_that_repeats_a_whole_mapping_is_cut_to_what_was_expected() -> None:
    wrong = changed(cluster(), lambda m: m["spec"].update(workerGroupSpecs={"x" * 500: 1}))
    (error,) = checked([wrong], Schemas()).errors
    assert error.message.endswith("is not of type 'array'")
    assert len(error.message) == LONGEST + len("...")


def test_fields_of_jobs_and_of_wrappers_are_checked_too() -> None:
    def both(wrapped: Object) -> None:
        wrapped["spec"]["components"][0]["template"]["spec"]["entryPoint"] = "x"
        wrapped["spec"]["component"] = []

    report = checked([changed(wrapper(job()), both)], Schemas())
    assert {error.path for error in report.errors} == {"spec", "spec.components[0].template.spec"}


def test_an_older_version_of_a_kind_is_not_held_against_the_newer_schema() -> None:
    older = changed(cluster(), lambda m: m.update(apiVersion="ray.io/v1alpha1", other=1))
    assert rules(checked([older], Schemas("RayCluster"))) == {"no-schema"}


# The real ones


def test_the_schemas_that_are_installed_refuse_what_kubernetes_refuses() -> None:
    pytest.importorskip("kubernetes_validate", reason="the group kubernetes is not installed")
    asked = validator()
    assert checked([cluster(), job(), wrapper(cluster()), batch_job()], asked).findings == ()
    wrong = changed(
        cluster(),
        lambda m: m["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0].update(images="x"),
    )
    (error,) = checked([wrong], asked).errors
    assert (error.path, error.message) == (
        "spec.headGroupSpec.template.spec.containers[0]",
        "unknown field ('images')",
    )
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"port": 1}}
    assert rules(checked([service], asked), "error") == {"schema"}


# The documents


def test_the_documents_table_has_every_rule_and_no_other() -> None:
    folder = ROOT / "lab" / "ext" / "kubernetes"
    code = "\n".join(path.read_text() for path in (*folder.glob("lint/*.py"), folder / "manifests.py"))
    names = set(re.findall(r'[fF]inding\(\s*"([a-z-]+)"', code))
    for line in re.findall(r"^ *(?:RULE|rule) = (.+)$", code, re.MULTILINE):
        names |= set(re.findall(r'"([a-z-]+)"', line))
    text = (ROOT / "docs" / "kubernetes.md").read_text().partition("## The checks")[2]
    first = "\n".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))
    assert set(re.findall(r"`([a-z-]+)`", first)) == names
