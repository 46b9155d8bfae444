"""An exported lab comes back as it was; a cluster of others becomes a lab of its shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import ManifestError, NotFoundError, UsageError
from lab.flows.kubernetes.export import Wanted, export
from lab.flows.kubernetes.export.wanted import Code, portable
from lab.flows.kubernetes.imported import Imported, import_lab
from lab.host.plain import build
from lab.queue.reading import read
from lab.queue.simulate import simulate
from lab.topology import GpuPlan, LabSpec, Vendor
from tests.unit.flows.kubernetes.made import NOBODY, Object, changed, cluster, job, pod, queues, wrapper

CODE = Code(
    "lab-train",
    ("python", "/opt/raylab/job/train.py", "--x", "1"),
    {"train.py": b"print()\n", "data/table": b"\xff\x00"},
    {"pip": ["emoji"]},
)


def back(*objects: Object, **settings: Any) -> Imported:
    return import_lab([("f", yaml.safe_dump_all(objects))], **settings)


@pytest.mark.parametrize("code", [None, CODE])
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("queue", ["", "team"])
@pytest.mark.parametrize(
    "spec",
    [
        LabSpec(),
        LabSpec("other", workers=1, cpus_per_worker=1, stock_ray=True),
        LabSpec("lab-2", GpuPlan(Vendor.NVIDIA), workers=16, cpus_per_worker=64, gcs_ft=True),
        LabSpec("lab", GpuPlan(Vendor.AMD), workers=3, gcs_ft=True, stock_ray=True),
    ],
)
def test_a_lab_comes_back_as_it_was(spec: LabSpec, queue: str, wrapped: bool, code: Code | None) -> None:
    lab = portable(spec)
    written = export(Wanted(lab, queue=queue, code=code, app_wrapper=wrapped), (), NOBODY)
    found = import_lab([("f", written.stream())])
    assert found.spec == lab
    assert found.differs == ()
    if code is None:
        assert found.job is None
    else:
        assert found.job is not None
        assert found.job.command == ("python", "train.py", "--x", "1")
        assert found.job.files == code.files
        assert found.job.runtime_env == code.runtime_env


def test_the_queues_come_back_with_what_was_asked_for() -> None:
    written = export(Wanted(portable(LabSpec(workers=3)), queue="team", code=CODE), (), NOBODY)
    found = import_lab([("f", written.stream())])
    files = found.files()
    again = read([("queues.yaml", files["queues.yaml"].decode())], "raylab")
    assert again.errors == ()
    assert again.setup.cluster_queues == found.setup.cluster_queues
    (asked,) = again.workloads
    assert [(each.name, each.count) for each in asked.pod_sets] == [
        ("head", 1),
        ("workers", 3),
        ("submitter", 1),
    ]
    assert [each.event for each in simulate(again.setup, again.workloads, cycles=1).changes][-1] == "Admitted"
    assert files["job/train.py"] == b"print()\n"
    assert build(LabSpec, json.loads(files["lab.json"])) == found.spec


def test_a_cluster_of_others_trains_with_stock_ray() -> None:
    found = back(cluster())
    assert found.spec == LabSpec("lab", GpuPlan(Vendor.NONE), workers=2, cpus_per_worker=8, stock_ray=True)
    assert found.up("none") == (
        *("labctl", "up", "--lab", "lab", "--workers", "2", "--cpus-per-worker", "8"),
        *("--gpu", "none", "--stock-ray"),
    )


def second_group(found: Object) -> None:
    group = {**found["spec"]["workerGroupSpecs"][0], "groupName": "more", "replicas": 1, "numOfHosts": 2}
    found["spec"]["workerGroupSpecs"].append({**group, "template": pod(cpu="4", **{"nvidia.com/gpu": "2"})})


@pytest.mark.parametrize(
    ("change", "workers", "told"),
    [
        (lambda m: m["spec"]["workerGroupSpecs"][0].update(replicas=40), 16, "40 workers, the lab 16"),
        (lambda m: m["spec"]["workerGroupSpecs"][0].update(replicas=0), 1, "no worker of its own"),
        (lambda m: m["spec"].update(workerGroupSpecs=[]), 1, "no worker of its own"),
        (lambda m: m["spec"].update(enableInTreeAutoscaling=True), 2, "grows and shrinks"),
        (second_group, 4, "differ in CPUs (8, 4)"),
        (second_group, 4, "have 2 GPUs each"),
        (second_group, 4, "only some of its workers have such a GPU"),
        (lambda m: m["metadata"].update(name="a-cluster-with-a-long-name"), 2, "called a-cluster-with-a-lon"),
        (lambda m: m["metadata"].update(name="data"), 2, "called"),
    ],
)
def test_what_is_not_the_same_here_is_told(change: Any, workers: int, told: str) -> None:
    found = back(changed(cluster(), change))
    assert found.spec.workers == workers
    assert any(told in line for line in found.differs), found.differs


@pytest.mark.parametrize(
    ("group", "cpus"),
    [
        ({"rayStartParams": {"num-cpus": "3"}}, 3),
        ({"resources": {"CPU": "5"}}, 5),
        ({"template": pod(cpu="2500m")}, 3),
        ({"template": {"spec": {"containers": [{"name": "ray", "image": "x"}]}}}, 8),
    ],
)
def test_cpus_are_those_that_ray_would_count(group: Object, cpus: int) -> None:
    found = back(changed(cluster(), lambda m: m["spec"]["workerGroupSpecs"][0].update(group)))
    assert found.spec.cpus_per_worker == cpus


def test_redis_by_the_old_annotation_is_redis_too() -> None:
    def old(found: Object) -> None:
        found["metadata"]["annotations"] = {"ray.io/ft-enabled": "true"}

    assert back(changed(cluster(), old)).spec.gcs_ft


def test_a_job_whose_script_is_elsewhere_is_told() -> None:
    found = back(job())
    assert found.job is not None
    assert found.job.command == ("python", "train.py")
    assert any("train.py is not among these files" in line for line in found.differs)


def test_a_config_map_of_others_is_the_jobs_code(tmp_path: Path) -> None:
    def mounted(found: Object) -> None:
        head = found["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
        head["containers"][0]["volumeMounts"] = [{"name": "code", "mountPath": "/home/ray/samples"}]
        head["volumes"] = [{"name": "code", "configMap": {"name": "sample"}}]
        found["spec"]["entrypoint"] = "python /home/ray/samples/sample.py"

    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sample", "namespace": "team"}}
    found = back(changed(job(), mounted), {**code, "data": {"sample.py": "pass\n", "../up": "x"}})
    assert found.job is not None
    assert found.job.command == ("python", "sample.py")
    assert found.job.files == {"sample.py": b"pass\n"}
    assert found.steps(tmp_path)[0] == (
        *("labctl", "--lab", "lab", "submit", "--working-dir", str(tmp_path / "job")),
        *("--", "python", "sample.py"),
    )


def test_the_priority_of_a_queued_job_comes_along() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/priority-class": "high"}
    known: Object = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "high"},
        "value": 7,
    }
    found = back(*queues(), known, changed(wrapper(cluster()), lambda m: m["metadata"].update(labels=labels)))
    assert found.workload is not None
    assert found.workload.priority == 7


def test_of_several_clusters_one_has_to_be_chosen() -> None:
    other = changed(cluster(), lambda m: m["metadata"].update(name="second"))
    with pytest.raises(UsageError, match="lab, second"):
        back(cluster(), other)
    assert back(cluster(), other, chosen="second").name == "second"
    with pytest.raises(NotFoundError, match="secnod") as error:
        back(cluster(), other, chosen="secnod")
    assert error.value.hint == "did you mean second?"


@pytest.mark.parametrize(
    ("objects", "error"),
    [
        ([], NotFoundError),
        (queues(), NotFoundError),
        ([changed(cluster(), lambda m: m.pop("kind"))], ManifestError),
        ([changed(cluster(), lambda m: m["spec"].update(headGroupSpec={}))], ManifestError),
        ([changed(job(), lambda m: m["spec"].update(entrypoint="python 'x"))], ManifestError),
        ([changed(job(), lambda m: m["spec"].update(runtimeEnvYAML="- a"))], ManifestError),
        ([changed(job(), lambda m: m["spec"].update(runtimeEnvYAML="a: ["))], ManifestError),
        ([changed(job(), lambda m: m["spec"].update(runtimeEnvYAML="a: &a [*a]"))], ManifestError),
        ([cluster(), {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue"}], ManifestError),
    ],
)
def test_what_holds_no_lab_is_refused(objects: list[Object], error: type[Exception]) -> None:
    with pytest.raises(error):
        back(*objects)
