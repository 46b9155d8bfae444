"""Each part of an object is held against the schema that is its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from lab.ext.kubernetes.lint.schemas import LONGEST, VERSIONS, validator_of
from tests.conftest import ROOT
from tests.ext.kubernetes.made import (
    Object,
    batch_job,
    changed,
    checked,
    cluster,
    errors,
    job,
    pod,
    rules,
    wrapper,
)

pytest.importorskip("kubernetes_validate", reason="the group kubernetes is not installed")


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
    report = checked([changed(good, change)])
    assert [(error.path, error.message) for error in errors(report)] == [(path, "unknown field ('bad')")]


def test_an_object_without_a_schema_is_a_note() -> None:
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": {"name": "m"}}
    report = checked([monitor])
    assert (rules(report), report.good) == ({"no-schema"}, True)


# The CRDs


def test_every_crd_is_a_json_schema() -> None:
    for kind, version in VERSIONS.items():
        validator = validator_of(kind, version)
        assert validator is not None
        validator.check_schema(validator.schema)


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
    (error,) = errors(checked([changed(cluster(), change)]))
    assert (error.rule, error.path) == ("schema", path)
    assert message in error.message


def test_a_message_that_repeats_a_whole_mapping_is_cut_to_what_was_expected() -> None:
    wrong = changed(cluster(), lambda m: m["spec"].update(workerGroupSpecs={"x" * 500: 1}))
    (error,) = errors(checked([wrong]))
    assert error.message.endswith("is not of type 'array'")
    assert len(error.message) == LONGEST + len("...")


def test_fields_of_jobs_and_of_wrappers_are_checked_too() -> None:
    def both(wrapped: Object) -> None:
        wrapped["spec"]["components"][0]["template"]["spec"]["entryPoint"] = "x"
        wrapped["spec"]["component"] = []

    report = checked([changed(wrapper(job()), both)])
    assert {error.path for error in errors(report)} == {"spec", "spec.components[0].template.spec"}


def test_an_older_version_of_a_kind_is_not_held_against_the_newer_schema() -> None:
    older = changed(cluster(), lambda m: m.update(apiVersion="ray.io/v1alpha1", other=1))
    assert rules(checked([older])) == {"no-schema"}


# The real ones


def test_the_schemas_that_are_installed_refuse_what_kubernetes_refuses() -> None:
    assert checked([cluster(), job(), wrapper(cluster()), batch_job()]).findings == ()
    wrong = changed(
        cluster(),
        lambda m: m["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0].update(images="x"),
    )
    (error,) = errors(checked([wrong]))
    assert (error.path, error.message) == (
        "spec.headGroupSpec.template.spec.containers[0]",
        "unknown field ('images')",
    )
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"port": 1}}
    assert rules(checked([service]), "error") == {"schema"}


# The documents


def test_the_documents_table_has_every_rule_and_no_other() -> None:
    folder = ROOT / "lab" / "ext" / "kubernetes"
    code = "\n".join(path.read_text() for path in (*folder.glob("lint/*.py"), folder / "manifests.py"))
    names = set(re.findall(r'(?:[fF]inding|taken_over)\(\s*"([a-z-]+)"', code))
    names |= set(re.findall(r'\("([a-z-]+)", (?:NOTE|ERROR)\)', code))
    text = (ROOT / "docs" / "kubernetes.md").read_text().partition("## The checks")[2]
    first = "\n".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))
    assert set(re.findall(r"`([a-z-]+)`", first)) == names
