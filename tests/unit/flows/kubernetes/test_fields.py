"""Fields of KubeRay are those of its release; what is not there is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.flows.kubernetes.clusters import RAY
from lab.flows.kubernetes.lint.tables import ANY, CLUSTER, JOB, TABLES, Fields, Leaf, Many, Named
from tests.conftest import ROOT
from tests.unit.flows.kubernetes.made import Object, changed, checked, cluster, job, wrapper

LISTED = ROOT / "tests" / "unit" / "data" / "kubernetes" / "kuberay-1.7.txt"
WORDS = {"string": str, "integer": int, "number": float, "boolean": bool, "quantity": str}


def paths(shape: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Path -> leaf of every field of a table; a cluster inside of another object is left out."""
    if (shape is CLUSTER or shape is JOB) and "." in path:
        return
    if isinstance(shape, Fields):
        for name, each in shape.known.items():
            yield from paths(each, f"{path}.{name}")
    elif isinstance(shape, Many):
        yield from paths(shape.element, f"{path}[]")
    elif isinstance(shape, Named):
        yield from paths(shape.element, f"{path}.*")
    else:
        yield path, shape


def test_the_tables_have_every_field_of_kuberay_and_no_other() -> None:
    lines = [line for line in LISTED.read_text().splitlines() if not line.startswith("#")]
    listed = dict(line.split(" ", 1) for line in lines)
    ours = {
        path: leaf
        for (group, kind), (_, table) in TABLES.items()
        if group == RAY
        for path, leaf in paths(table, kind)
    }
    assert set(ours) == set(listed)
    for path, kind in listed.items():
        leaf = ours[path]
        assert isinstance(leaf, Leaf)
        word = kind.partition(">=")[0]
        if kind == "any":
            assert leaf is ANY, path
        elif word in WORDS:
            assert WORDS[word] in leaf.types, path
            assert ">=" not in kind or leaf.least >= int(kind.partition(">=")[2]), path
        else:
            assert set(leaf.words) == set(kind.split("|")), path


def test_good_manifests_have_no_finding() -> None:
    for each in (cluster(), job(), wrapper(cluster())):
        assert checked([each]).findings == ()


@pytest.mark.parametrize(
    ("change", "told", "hint"),
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
def test_a_field_that_no_server_takes_is_told(change: Any, told: str, hint: str) -> None:
    report = checked([changed(cluster(), change)])
    assert any(told in str(each) and hint in each.hint for each in report.errors), report.findings


def test_fields_of_jobs_and_of_wrappers_are_checked_too() -> None:
    def both(found: Object) -> None:
        found["spec"]["components"][0]["template"]["spec"]["entryPoint"] = "x"
        found["spec"]["component"] = []

    report = checked([changed(wrapper(job()), both)])
    assert {each.path for each in report.errors} == {
        "spec.component",
        "spec.components[0].template.spec.entryPoint",
    }
