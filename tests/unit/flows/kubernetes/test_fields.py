"""Fields of KubeRay are those of its release; what is not there is refused."""

from __future__ import annotations

from typing import Any

import pytest

from lab.flows.kubernetes.lint.fields import ANYTHING, TYPES, VERSIONS, Field, tables
from tests.unit.flows.kubernetes.made import Object, changed, checked, cluster, job, wrapper


def test_every_field_of_the_tables_has_a_type_that_is_known() -> None:
    def types(table: Field) -> set[str]:
        return {table.type}.union(*map(types, table.inner.values()))

    named = set().union(*map(types, tables().values())) - {"", ANYTHING, *TYPES, *tables()}
    assert all("|" in word or ">=" in word or word == "Failed" for word in named), named
    assert {kind for _, kind in VERSIONS} == set(tables())


def test_good_manifests_have_no_finding() -> None:
    for manifest in (cluster(), job(), wrapper(cluster())):
        assert checked([manifest]).findings == ()


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        (lambda m: m["spec"].update(rayversion="2.60.0"), "spec.rayversion: unknown field", "rayVersion"),
        (lambda m: m["spec"].update(rayVersion=2.6), "expected a text, found 2.6", '"2.6"'),
        (
            lambda m: m["spec"]["headGroupSpec"]["rayStartParams"].update({"num-cpus": 0}),
            "spec.headGroupSpec.rayStartParams.num-cpus: expected a text, found 0",
            'write it in quotes: "0"',
        ),
        (
            lambda m: m["spec"]["headGroupSpec"]["rayStartParams"].update({"block": True}),
            "rayStartParams.block: expected a text, found true",
            '"true"',
        ),
        (lambda m: m["spec"].pop("headGroupSpec"), "headGroupSpec is missing", ""),
        (lambda m: m["spec"].update(workerGroupSpecs={}), "expected a list, found a mapping", ""),
        (lambda m: m["spec"].update(headGroupSpec=[]), "expected a mapping, found a list", ""),
        (lambda m: m["spec"]["workerGroupSpecs"][0].update(replicas=True), "expected a whole number", ""),
        (lambda m: m["spec"]["workerGroupSpecs"][0].update(replicas=2**31), "found 2147483648", ""),
        (lambda m: m["spec"].update(suspend="no"), "expected true or false, found no", ""),
        (
            lambda m: m["spec"].update(authOptions={"mode": "tokens"}),
            "expected one of disabled, token, found tokens",
            "did you mean token?",
        ),
        (
            lambda m: m["spec"].update(gcsFaultToleranceOptions={"storage": {"size": "5GB"}}),
            "expected a quantity, found 5GB",
            "3Gi",
        ),
        (lambda m: m.update(specs={}), "specs: unknown field", "spec"),
        (lambda m: m.pop("spec"), "spec is missing", ""),
        (lambda m: m["metadata"].pop("name"), "metadata.name is missing", ""),
        (lambda m: m.update(apiVersion="ray.io/v1alpha1"), "RayCluster of v1alpha1", "ray.io/v1"),
        (lambda m: m.update(kind="RayClusters"), "ray.io has no RayClusters", "did you mean RayCluster?"),
    ],
)  # fmt: skip
def test_a_field_that_no_server_takes_is_told(change: Any, message: str, hint: str) -> None:
    report = checked([changed(cluster(), change)])
    assert any(message in str(error) and hint in error.hint for error in report.errors), report.findings


def test_fields_of_jobs_and_of_wrappers_are_checked_too() -> None:
    def both(wrapped: Object) -> None:
        wrapped["spec"]["components"][0]["template"]["spec"]["entryPoint"] = "x"
        wrapped["spec"]["component"] = []

    report = checked([changed(wrapper(job()), both)])
    assert {error.path for error in report.errors} == {
        "spec.component",
        "spec.components[0].template.spec.entryPoint",
    }
