"""Each mistake that users of KubeRay and Kueue repeat is found, with its rule; good manifests have none."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.unit.flows.kubernetes.made import (
    Object,
    changed,
    checked,
    cluster,
    job,
    pod,
    queues,
    rules,
    wrapper,
)

GPU = {"nvidia.com/gpu": "1"}


def workers(manifest: Object) -> Object:
    """The group of workers of a cluster or a job."""
    spec = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    group: Object = spec["workerGroupSpecs"][0]
    return group


def container(group: Object) -> Object:
    first: Object = group["template"]["spec"]["containers"][0]
    return first


def amounts(group: Object) -> Object:
    amounts: Object = container(group)["resources"]
    return amounts


def mount(group: Object, **folder: Any) -> Object:
    """Mount an emptyDir at /dev/shm."""
    container(group)["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    group["template"]["spec"]["volumes"] = [{"name": "shm", "emptyDir": folder}]
    return group


def env(group: Object, **variables: str) -> Object:
    container(group)["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    return group


def head(manifest: Object) -> Object:
    spec = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    group: Object = spec["headGroupSpec"]
    return group


def scaled(manifest: Object) -> None:
    manifest["spec"]["enableInTreeAutoscaling"] = True


def scaled_and(change: Callable[[Object], Any]) -> Callable[[Object], Any]:
    def both(manifest: Object) -> None:
        scaled(manifest)
        change(manifest)

    return both


QUEUE = {"kueue.x-k8s.io/queue-name": "main"}


def ending(template: Object) -> Object:
    """The template of a pod that may end, as jobs need it."""
    return changed(template, lambda m: m["spec"].update(restartPolicy="Never"))


def batch() -> Object:
    """A Job of Kubernetes."""
    metadata = {"name": "b", "namespace": "team"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": ending(pod())},
    }


BROKEN: list[tuple[str, str, Object, Callable[[Object], Any]]] = [
    # rule, level, what is good, what breaks it
    ("name-length", "error", cluster(), lambda m: m["metadata"].update(name="a" * 54)),
    ("name-length", "error", job(), lambda m: m["metadata"].update(name="a" * 48)),
    (
        "name-length",
        "error",
        job(),
        lambda m: m.update(metadata={"generateName": "a" * 43, "namespace": "team"}),
    ),
    ("name", "error", cluster(), lambda m: m["metadata"].update(name="2lab")),
    ("name", "error", cluster(), lambda m: m["metadata"].update(name="Lab")),
    ("fields", "error", cluster(), lambda m: workers(m)["rayStartParams"].update({"num-gpus": 1})),
    ("groups", "error", cluster(), lambda m: m["spec"]["workerGroupSpecs"].append(workers(m))),
    ("min-max", "warning", cluster(), lambda m: workers(m).pop("maxReplicas")),
    ("min-max", "warning", cluster(), lambda m: workers(m).pop("minReplicas")),
    ("min-max", "error", cluster(), lambda m: workers(m).update(minReplicas=3)),
    ("min-max", "error", cluster(), lambda m: workers(m).update(minReplicas=-1)),
    ("min-max", "warning", cluster(), lambda m: workers(m).update(replicas=3)),
    ("min-max", "error", cluster(), scaled_and(lambda m: workers(m).update(replicas=3))),
    ("min-max", "warning", cluster(), scaled_and(lambda m: workers(m).update(maxReplicas=2**31 - 1))),
    ("start-params", "error", cluster(), lambda m: workers(m)["rayStartParams"].update(labels="a=b")),
    (
        "start-params",
        "error",
        cluster(),
        lambda m: workers(m).update(resources={"CPU": "4"}, rayStartParams={"num-cpus": "4"}),
    ),
    (
        "start-params-resources",
        "error",
        cluster(),
        lambda m: workers(m)["rayStartParams"].update(resources='{"a": 1}'),
    ),
    ("containers", "error", cluster(), lambda m: workers(m)["template"]["spec"].update(containers=[])),
    ("gpu-name", "error", cluster(), lambda m: amounts(workers(m))["limits"].update({"nvidia.com/GPU": 1})),
    ("gpu-limits", "error", cluster(), lambda m: amounts(workers(m))["requests"].update(GPU)),
    (
        "gpu-limits",
        "error",
        cluster(),
        lambda m: amounts(workers(m)).update(limits=GPU, requests={"nvidia.com/gpu": "2"}),
    ),
    ("resource-name", "error", cluster(), lambda m: amounts(workers(m))["limits"].update(memry="1Gi")),
    ("resource-name", "error", batch(), lambda m: amounts(m["spec"])["requests"].update(gpu="1")),
    ("gpu-name", "error", batch(), lambda m: amounts(m["spec"])["limits"].update({"NVIDIA.com/gpu": 1})),
    ("gpu-limits", "error", wrapper(batch()), lambda m: amounts(inner(m)["spec"])["requests"].update(GPU)),
    ("head-gpu", "warning", cluster(), lambda m: amounts(head(m))["limits"].update(GPU)),
    ("cpu-limits", "warning", cluster(), lambda m: container(workers(m)).update(resources={})),
    ("cpu-limits", "error", cluster(), scaled_and(lambda m: container(workers(m)).update(resources={}))),
    ("memory-limits", "note", cluster(), lambda m: container(workers(m)).update(resources={})),
    (
        "object-store",
        "error",
        cluster(),
        lambda m: workers(m)["rayStartParams"].update({"object-store-memory": str(5 * 1024**3)}),
    ),
    ("shared-memory", "error", cluster(), lambda m: mount(workers(m))),
    ("shared-memory", "warning", cluster(), lambda m: mount(workers(m), medium="Memory", sizeLimit="5Gi")),
    (
        "shared-memory",
        "error",
        cluster(),
        lambda m: (
            mount(workers(m), medium="Memory", sizeLimit="1Gi"),
            workers(m)["rayStartParams"].update({"object-store-memory": str(2 * 1024**3)}),
        ),
    ),
    (
        "shared-memory",
        "warning",
        cluster(),
        lambda m: workers(m)["rayStartParams"].update({"plasma-directory": "/tmp"}),
    ),
    ("runtime-class", "note", cluster(), lambda m: amounts(workers(m)).update(limits=GPU, requests=GPU)),
    ("ray-version", "warning", cluster(), lambda m: m["spec"].pop("rayVersion")),
    ("ray-version", "error", cluster(), lambda m: m["spec"].update(rayVersion="2.52.0")),
    (
        "ray-version",
        "error",
        cluster(),
        lambda m: (
            m["spec"].pop("rayVersion"),
            workers(m).update(template=pod("rayproject/ray:2.9.0-py311")),
        ),
    ),
    (
        "ray-version",
        "error",
        job(),
        lambda m: m["spec"].update(submitterPodTemplate=ending(pod("quay.example/ray:2.41.0"))),
    ),
    (
        "python-version",
        "error",
        cluster(),
        lambda m: (
            head(m).update(template=pod("rayproject/ray:2.60.0-py311")),
            workers(m).update(template=pod("rayproject/ray:2.60.0-py312")),
        ),
    ),
    (
        "probes",
        "note",
        cluster(),
        lambda m: (
            m["spec"].update(rayVersion="2.52.0"),
            [group.update(template=pod("team/own:1")) for group in (head(m), workers(m))],
        ),
    ),
    (
        "ray-first",
        "error",
        cluster(),
        lambda m: workers(m)["template"]["spec"]["containers"].insert(0, {"name": "x", "image": "busybox:1"}),
    ),
    ("autoscaler", "warning", cluster(), lambda m: m["spec"].update(autoscalerOptions={"version": "v2"})),
    (
        "autoscaler-resources",
        "error",
        cluster(),
        scaled_and(lambda m: m["spec"].update(autoscalerOptions={"resources": {"limits": GPU}})),
    ),
    ("autoscaler", "error", cluster(), lambda m: env(head(m), RAY_enable_autoscaler_v2="1")),
    (
        "autoscaler",
        "error",
        cluster(),
        scaled_and(lambda m: workers(m)["template"]["spec"].update(restartPolicy="Always")),
    ),
    ("autoscaler", "error", cluster(), scaled_and(lambda m: workers(m).update(suspend=True))),
    (
        "token",
        "error",
        cluster(),
        lambda m: m["spec"].update(authOptions={"mode": "token"}, rayVersion="2.50.0"),
    ),
    (
        "token",
        "error",
        job(),
        lambda m: m["spec"]["rayClusterSpec"].update(
            authOptions={"mode": "token", "enableK8sTokenAuth": True}
        ),
    ),
    (
        "token",
        "error",
        cluster(),
        lambda m: m["spec"].update(
            authOptions={"mode": "token", "enableK8sTokenAuth": True, "secretName": "s"}
        ),
    ),
    (
        "token",
        "note",
        cluster(),
        lambda m: m["spec"].update(authOptions={"mode": "token", "secretName": "elsewhere"}),
    ),
    ("gcs-fault-tolerance", "error", cluster(), lambda m: env(head(m), RAY_REDIS_ADDRESS="redis:6379")),
    (
        "gcs-fault-tolerance",
        "error",
        cluster(),
        lambda m: (
            m["spec"].update(gcsFaultToleranceOptions={"redisAddress": "r:1"}),
            m["metadata"].update(annotations={"ray.io/ft-enabled": "true"}),
        ),
    ),
    (
        "gcs-fault-tolerance",
        "error",
        cluster(),
        lambda m: (
            m["spec"].update(gcsFaultToleranceOptions={"redisAddress": "r:1"}),
            env(head(m), REDIS_PASSWORD="x"),
        ),
    ),
    (
        "gcs-fault-tolerance",
        "error",
        cluster(),
        lambda m: (
            m["spec"].update(gcsFaultToleranceOptions={"redisAddress": "r:1"}),
            head(m)["rayStartParams"].update({"redis-password": "x"}),
        ),
    ),
    ("gcs-fault-tolerance", "error", cluster(), lambda m: m["spec"].update(gcsFaultToleranceOptions={})),
    (
        "gcs-fault-tolerance",
        "error",
        cluster(),
        lambda m: head(m)["rayStartParams"].update({"redis-username": "x"}),
    ),
    ("shutdown", "error", job(), lambda m: m["spec"].update(suspend=True, shutdownAfterJobFinishes=False)),
    ("shutdown", "error", job("main"), lambda m: m["spec"].pop("shutdownAfterJobFinishes")),
    (
        "shutdown",
        "error",
        job(),
        lambda m: m["spec"].update(ttlSecondsAfterFinished=9, shutdownAfterJobFinishes=False),
    ),
    (
        "shutdown",
        "error",
        job(),
        lambda m: m["spec"].update(
            deletionStrategy={
                "deletionRules": [{"policy": "DeleteSelf", "condition": {"jobStatus": "SUCCEEDED"}}]
            }
        ),
    ),
    ("job-cluster", "error", job(), lambda m: m["spec"].pop("rayClusterSpec")),
    ("job-cluster", "error", job(), lambda m: m["spec"].update(clusterSelector={"name": "x"})),
    (
        "job-cluster",
        "error",
        job(),
        lambda m: m["spec"].update(clusterSelector={"ray.io/cluster": "x"}, suspend=True),
    ),
    (
        "job-cluster",
        "error",
        job(),
        lambda m: m["spec"].update(clusterSelector={"ray.io/cluster": "x"}, submissionMode="SidecarMode"),
    ),
    (
        "job-retries",
        "error",
        job(),
        lambda m: m["spec"].update(submissionMode="InteractiveMode", backoffLimit=1),
    ),
    ("entrypoint", "error", job(), lambda m: m["spec"].pop("entrypoint")),
    ("entrypoint", "error", job(), lambda m: m["spec"].update(entrypointResources="a=1")),
    (
        "submitter",
        "error",
        job(),
        lambda m: m["spec"].update(submissionMode="SidecarMode", submitterConfig={"backoffLimit": 1}),
    ),
    (
        "submitter",
        "error",
        job(),
        lambda m: (
            m["spec"].update(submissionMode="SidecarMode"),
            head(m)["template"]["spec"].update(restartPolicy="Always"),
        ),
    ),
    ("submitter", "error", job(), lambda m: m["spec"].update(submitterPodTemplate=pod())),
    ("deadline", "error", job(), lambda m: m["spec"].update(activeDeadlineSeconds=0)),
    ("child-queue", "error", wrapper(cluster()), lambda m: inner(m)["metadata"].update(labels=dict(QUEUE))),
    (
        "child-queue",
        "error",
        job(),
        lambda m: workers(m)["template"].update(metadata={"labels": dict(QUEUE)}),
    ),
    ("suspend", "warning", cluster("main"), lambda m: m["spec"].update(suspend=False)),
    ("queued-autoscaler", "error", cluster("main"), scaled),
    ("queued-groups", "error", cluster("main"), lambda m: workers(m).update(groupName="head")),
    (
        "queued-groups",
        "error",
        cluster("main"),
        lambda m: m["spec"].update(
            workerGroupSpecs=[{**workers(m), "groupName": f"w{place}"} for place in range(18)]
        ),
    ),
    (
        "queued-selector",
        "error",
        job("main"),
        lambda m: m["spec"].update(clusterSelector={"ray.io/cluster": "x"}),
    ),
    ("queued-ttl", "warning", job("main"), lambda m: m["spec"].update(ttlSecondsAfterFinished=600)),
    (
        *("queued-ttl", "warning", wrapper(job(), "main")),
        lambda m: inner(m)["spec"].update(ttlSecondsAfterFinished=600),
    ),
]


def inner(manifest: Object) -> Object:
    """The object in an AppWrapper."""
    part: Object = manifest["spec"]["components"][0]["template"]
    return part


@pytest.mark.parametrize(
    ("rule", "level", "good", "change"), BROKEN, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_mistake_is_found_by_its_rule(
    rule: str, level: str, good: Object, change: Callable[[Object], Any]
) -> None:
    beside = queues()
    assert rules(checked([*beside, good])) == set()
    assert rule in rules(checked([*beside, changed(good, change)]), level)


ELSEWHERE = {"yaml", "schema", "no-schema", "ray-reads-cluster", "runtime-env", "ray-start"} | {
    *("queues", "queues-left-out", "quota", "submitter-quota", "priority", "twice", "namespace-limits"),
}
"""Rules with tests of their own, below and in the other files."""


def named() -> set[str]:
    """Names of all rules, as the code has them."""
    folder = ROOT / "lab" / "flows" / "kubernetes" / "lint"
    text = "\n".join(path.read_text() for path in (*folder.glob("*.py"), folder.parent / "manifests.py"))
    names = set(re.findall(r'(?:finding|wrong|Finding)\(\s*"([a-z-]+)"', text))
    lines = re.findall(r"^ *(?:[A-Z_]*RULE\b.*|rule, .*|rule) = (.+)$", text, re.MULTILINE)
    return names | {name for line in lines for name in re.findall(r'"([a-z-]+)"', line)}


def test_every_rule_has_a_test_that_breaks_it() -> None:
    assert named() - {rule for rule, *_ in BROKEN} - ELSEWHERE == set()
    assert ELSEWHERE | {rule for rule, *_ in BROKEN} == named()


def test_every_rule_is_in_the_documents_table() -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text().partition("## The checks")[2]
    assert (
        set(re.findall(r"`([a-z-]+)`", "\n".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))))
        == named()
    )


@pytest.mark.parametrize(
    "good",
    [
        changed(cluster(), lambda m: mount(workers(m), medium="Memory", sizeLimit="1Gi")),
        changed(cluster(), lambda m: workers(m)["rayStartParams"].update(resources="'{\"a\": 1}'")),
        changed(cluster(), lambda m: workers(m)["rayStartParams"].update(resources='"{\\"a\\": 1}"')),
        changed(cluster(), lambda m: m["metadata"].update(name="a" * 53)),
        changed(job(), lambda m: m.update(metadata={"generateName": "a" * 41 + "-"})),
        changed(cluster(), lambda m: m["spec"].update(authOptions={"mode": "token"})),
        changed(cluster(), lambda m: m["spec"].update(gcsFaultToleranceOptions={"redisAddress": "r:6379"})),
        changed(cluster(), scaled),
    ],
)
def test_what_only_looks_like_a_mistake_is_none(good: Object) -> None:
    assert rules(checked([good])) == set()


def test_a_second_object_of_one_name_is_told() -> None:
    assert rules(checked([cluster(), cluster()]), "error") == {"twice"}
    other = changed(cluster(), lambda m: m["metadata"].update(namespace="other"))
    assert rules(checked([cluster(), other])) == set()


def test_a_secret_without_the_tokens_key_is_told() -> None:
    secured = changed(cluster(), lambda m: m["spec"].update(authOptions={"mode": "token", "secretName": "t"}))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t", "namespace": "team"}}
    assert rules(checked([secured, {**secret, "stringData": {"token": "x"}}]), "error") == {"token"}
    assert rules(checked([secured, {**secret, "stringData": {"auth_token": "x"}}])) == set()


def test_limits_that_a_resource_quota_of_the_namespace_demands_are_told() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"hard": {"limits.cpu": "10"}},
    }
    sidecar = {"name": "side", "image": "x:1"}
    with_sidecar = changed(cluster(), lambda m: workers(m)["template"]["spec"]["containers"].append(sidecar))
    assert rules(checked([with_sidecar])) == set()
    report = checked([with_sidecar, quota])
    assert [(error.rule, error.path) for error in report.errors] == [
        ("namespace-limits", "spec.workerGroupSpecs[0].template.spec.containers[1]")
    ]
