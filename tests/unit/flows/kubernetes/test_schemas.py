"""Kubernetes' schemas and Ray's readers are asked about the parts that are theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lab.flows.kubernetes.lint import Authorities, authorities_here
from lab.flows.kubernetes.lint.ray import Readers
from lab.flows.kubernetes.lint.schemas import NoSchemaError
from tests.unit.flows.kubernetes.made import Object, changed, checked, cluster, job, pod, rules, wrapper


class Schemas:
    """Schemas that know some kinds, and refuse what the field `bad` stands in."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, value: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str] | None:
        self.asked.append(value["kind"])
        if value["kind"] == "PodMonitor":
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
    report = checked([changed(good, change)], Authorities(Schemas(), None))
    errors = [error for error in report.errors if error.rule == "schema"]
    assert [(error.path, error.message) for error in errors] == [(path, "unknown field ('bad')")]


def test_an_object_without_a_schema_is_a_note() -> None:
    monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PodMonitor", "metadata": {"name": "m"}}
    report = checked([monitor], Authorities(Schemas(), None))
    assert (rules(report), report.errors) == ({"no-schema"}, ())


def test_objects_of_kueue_are_not_asked_about() -> None:
    schemas = Schemas()
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}}
    checked([flavor], Authorities(schemas, None))
    assert schemas.asked == []


def test_what_could_not_be_asked_is_told() -> None:
    assert [words.partition(":")[0] for words in checked([cluster()]).not_asked] == [
        "Kubernetes' schemas",
        "Ray's own readers",
    ]


# Ray's readers


class Ray:
    """Ray's two readers, which note what they are given and may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.clusters, self.environments = error, list[Any](), list[Any]()

    def readers(self) -> Readers:
        return Readers(self.cluster, self.environment, {})

    def cluster(self, given: dict[str, Any]) -> Mapping[str, Any]:
        self.clusters.append(given)
        if self.error:
            raise self.error
        return {"available_node_types": {}}

    def environment(self, given: dict[str, Any]) -> object:
        self.environments.append(given)
        if self.error:
            raise self.error
        return given


def test_ray_reads_the_cluster_with_what_the_server_fills_in() -> None:
    ray = Ray()
    ray_cluster = changed(cluster(), lambda m: m["spec"]["workerGroupSpecs"][0].pop("minReplicas"))
    checked([ray_cluster], Authorities(None, ray.readers()))
    assert ray.clusters[0]["metadata"] == {"name": "lab", "namespace": "team"}
    assert ray.clusters[0]["spec"]["workerGroupSpecs"][0]["minReplicas"] == 0


@pytest.mark.parametrize(("scaled", "level"), [(True, "error"), (False, "warning")])
def test_what_ray_cannot_read_is_an_error_where_the_autoscaler_runs(scaled: bool, level: str) -> None:
    ray_cluster = changed(cluster(), lambda m: m["spec"].update(enableInTreeAutoscaling=scaled))
    report = checked([ray_cluster], Authorities(None, Ray(ValueError("no CPU\nand more")).readers()))
    assert [(finding.rule, finding.level, finding.message) for finding in report.findings] == [
        ("ray-reads-cluster", level, "Ray's autoscaler cannot read it: no CPU")
    ]


def test_ray_is_not_asked_about_fields_that_are_wrong_already() -> None:
    ray = Ray()
    checked([changed(cluster(), lambda m: m["spec"].update(nonsense=1))], Authorities(None, ray.readers()))
    assert ray.clusters == []


BOMB = "a: &0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &{n} [{', '.join([f'*{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
"""A few lines that stand for 10 to the power of 12 values."""


def test_the_runtime_environment_of_a_job_is_read_by_ray() -> None:
    ray = Ray()
    ray_job = changed(job(), lambda m: m["spec"].update(runtimeEnvYAML="pip: [emoji]\n"))
    assert checked([ray_job], Authorities(None, ray.readers())).errors == ()
    assert ray.environments == [{"pip": ["emoji"]}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a: [", "is not YAML"),
        ("- a", "not a runtime environment"),
        ("a: 1", "Ray refuses it"),
        ("a: 1\n---\nb: 2", "is not one document, but 2"),
        (BOMB, "is not read: its aliases stand for more than"),
        ("[" * 2000, "is not read: nested deeper"),
    ],
)
def test_a_runtime_environment_that_is_none_is_told(given: str, message: str) -> None:
    def environment(value: dict[str, Any]) -> object:
        raise ValueError("unknown field")

    readers = Readers(Ray().cluster, environment, {})
    ray_job = changed(job(), lambda m: m["spec"].update(runtimeEnvYAML=given))
    report = checked([ray_job], Authorities(None, readers))
    assert [error.rule for error in report.errors] == ["runtime-env"]
    assert message in report.errors[0].message


def test_options_that_ray_start_does_not_have_are_told_with_the_right_one() -> None:
    ray = Ray()
    readers = Readers(ray.cluster, ray.environment, {}, ["num-cpus", "dashboard-host"])
    ray_cluster = changed(
        cluster(), lambda m: m["spec"]["headGroupSpec"]["rayStartParams"].update({"dashbord-host": "0.0.0.0"})
    )
    (finding,) = checked([ray_cluster], Authorities(None, readers)).findings
    assert (finding.rule, finding.level, finding.hint) == (
        "ray-start",
        "warning",
        "did you mean dashboard-host?",
    )


# The real ones


def test_the_schemas_that_are_installed_refuse_what_kubernetes_refuses() -> None:
    pytest.importorskip("kubernetes_validate", reason="the group kubernetes is not installed")
    asked = Authorities(authorities_here().schemas, None)
    assert checked([cluster(), job(), wrapper(cluster())], asked).errors == ()
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


def test_the_ray_that_is_installed_reads_a_cluster_and_an_environment() -> None:
    pytest.importorskip("ray", reason="the group local is not installed")
    asked = Authorities(None, authorities_here().ray)
    assert checked([cluster(), job()], asked).errors == ()

    def without_cpus(manifest: Object) -> None:
        manifest["spec"]["enableInTreeAutoscaling"] = True
        manifest["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"] = {}

    report = checked([changed(cluster(), without_cpus)], asked)
    assert {"cpu-limits", "ray-reads-cluster"} == rules(report, "error")
    params = {"num-cpus": "1", "object-store-memory": "1", "block": "true", "no-such": "1"}
    odd = changed(cluster(), lambda m: m["spec"]["headGroupSpec"].update(rayStartParams=params))
    assert [finding.path.rpartition(".")[2] for finding in checked([odd], asked).findings] == ["no-such"]
    wrong = changed(job(), lambda m: m["spec"].update(runtimeEnvYAML="pip: 3\n"))
    assert rules(checked([wrong], asked), "error") == {"runtime-env"}
