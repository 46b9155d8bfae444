"""Exports, errors of the checks and faults of clusters on one: Kubernetes' own servers, Kueue and KubeRay."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import yaml

from lab.errors import KubernetesError, NotFoundError
from lab.ext.kubernetes.kubectl import Kubectl
from lab.flows.queues.examples import example
from lab.topology import LabSpec
from tests.e2e.harness import ROOT, Bench
from tests.e2e.receipts import assert_recovered
from tests.ext.kubernetes.made import Object, batch_job, changed, job, pod, queues, wrapper
from tests.ext.kubernetes.made import cluster as ray_cluster
from tests.ext.kubernetes.test_schemas import BROKEN
from tests.kubernetes.cluster import ADMIN, STUDENT, Cluster, as_list
from tests.waiting import eventually

pytestmark = pytest.mark.rare

RUN_SECONDS, GONE_SECONDS = 120.0, 90.0
TYPED = re.compile(r"^ {7}((?:kubectl apply|AWS_ACCESS_KEY_ID=).*)$", re.MULTILINE)
"""Commands of an export's README that make something in a cluster."""
MONITORING = "-k monitoring"
"""Part of the one that needs the operator of Prometheus."""

EXPORTS: dict[str, tuple[str, ...]] = {
    "cluster": (),
    "queued-cluster": ("--queue", "queued-cluster", "--stock-ray"),
    "redis": ("--queue", "redis", "--gcs-ft"),
    "job": ("digits",),
    "queued-job": ("digits", "--queue", "queued-job", "--gcs-ft", "--workers", "3"),
    "nvidia": ("digits", "--queue", "nvidia", "--gpu", "nvidia", "--runtime-class", "nvidia"),
    "amd": ("--queue", "amd", "--gpu", "amd", "--memory-per-worker", "20Gi", "--cpus-per-worker", "2"),
    "wrapped-job": ("digits", "--queue", "wrapped-job", "--appwrapper"),
    "wrapped-cluster": ("--queue", "wrapped-cluster", "--appwrapper", "--gcs-ft"),
    "image": ("digits", "--queue", "image", "--code", "image", "--image", "team/train:1"),
    "team": ("digits", "--queue", "main", "--priority", "high"),
    "blue": ("digits", "--queue", "default-queue", "--appwrapper"),
}
"""Namespace -> options of the export."""

HIGH: Object = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "high"},
    "value": 100,
}
QUEUES: dict[str, Callable[[], str]] = {
    "team": lambda: yaml.safe_dump_all([*queues(), HIGH]),
    "blue": lambda: example("mlbatch", LabSpec(workers=8), 2**40).text,
}
"""Namespace -> the queues that its export is given."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("kubernetes")) as started:
        yield started


@pytest.fixture
def shell(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own environment has kubectl and its contexts."""
    for name in ("PATH", "KUBECONFIG"):
        monkeypatch.setenv(name, cluster.environment[name])


def pods(cluster: Cluster, namespace: str) -> dict[str, list[str]]:
    """Type of a node of Ray, `redis` or `submitter` -> the phases of its pods."""
    phases: dict[str, list[str]] = {}
    for item in cluster.objects("pods", namespace):
        labels = item["metadata"]["labels"]
        other = "submitter" if "job-name" in labels else "redis"
        phases.setdefault(labels.get("ray.io/node-type", other), []).append(item["status"]["phase"])
    return phases


def applied(cluster: Cluster, objects: list[Object]) -> None:
    ended = cluster.apply(objects)
    assert ended.returncode == 0, ended.stderr


def conditions(cluster: Cluster, namespace: str) -> dict[str, str]:
    """Type -> status, of what Kueue says of the one workload of a namespace."""
    (workload,) = cluster.objects("workloads.kueue.x-k8s.io", namespace)
    return {condition["type"]: condition["status"] for condition in workload["status"]["conditions"]}


@pytest.mark.parametrize("namespace", EXPORTS)
def test_an_export_is_applied_as_its_readme_says_admitted_and_runs(
    cluster: Cluster, home: Path, tmp_path: Path, namespace: str
) -> None:
    options, folder = EXPORTS[namespace], tmp_path / "k8s"
    if namespace in QUEUES:
        (tmp_path / "queues.yaml").write_text(QUEUES[namespace]())
        options = (*options, "--queues", str(tmp_path / "queues.yaml"))
    Bench(home).labctl("export", "kubernetes", *options, "--namespace", namespace, "--output", str(folder))

    typed = [line for line in TYPED.findall((folder / "README.md").read_text()) if MONITORING not in line]
    for line in typed:
        argv = ("sh", "-c", line.replace("=...", "=x"))
        ended = subprocess.run(
            argv,
            cwd=folder,
            env=cluster.environment,
            timeout=120,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{line}: {ended.stderr}"

    workers = int(options[options.index("--workers") + 1]) if "--workers" in options else 2
    wanted = {"head": ["Running"], "worker": ["Running"] * workers}
    wanted |= {"redis": ["Running"]} if "--gcs-ft" in options else {}
    wanted |= {"submitter": ["Succeeded"]} if "digits" in options else {}
    eventually(lambda: pods(cluster, namespace) == wanted, RUN_SECONDS, f"{wanted} in {namespace}")
    if "--queue" in options:
        said = conditions(cluster, namespace)
        assert (said["QuotaReserved"], said["Admitted"]) == ("True", "True")

    cluster.done("delete", "-k", str(folder), "--wait=false")
    eventually(lambda: not pods(cluster, namespace), GONE_SECONDS, f"no pod is left in {namespace}")
    assert cluster.objects("secrets", namespace), "secrets are not in the files, and stay"


# What the checks call an error


def in_namespace(objects: Sequence[Object], namespace: str) -> list[Object]:
    """A namespace, and the objects of them that stand in `team`, in this one."""
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    inside = json.dumps([manifest for manifest in objects if "namespace" in manifest["metadata"]])
    return [space, *json.loads(inside.replace('"namespace": "team"', f'"namespace": "{namespace}"'))]


def running(cluster: Cluster) -> set[str]:
    """Namespaces with a worker of Ray, or a pod of another job, that runs or did."""
    return {
        pod["metadata"]["namespace"]
        for pod in cluster.objects("pods")
        if pod["status"]["phase"] in ("Running", "Succeeded")
        and pod["metadata"]["labels"].get("ray.io/node-type") != "head"
    }


def test_no_cluster_takes_what_the_checks_call_an_error(cluster: Cluster) -> None:
    good = [*map(ray_cluster, ("", "main")), job(), job("main"), batch_job("main"), wrapper(job(), "main")]
    whole = {f"good-{place}": manifest for place, manifest in enumerate(good)}
    broken = {f"bad-{n}": changed(ray_cluster(), change) for n, (change, _, _) in enumerate(BROKEN)}
    head = {"template": pod(cpu="10001"), "rayStartParams": {}}
    large = {"large": changed(ray_cluster("main"), lambda m: m["spec"].update(headGroupSpec=head))}
    around = queues("10000", "10000Gi")
    doors = [manifest for name in (*broken, *large, *whole) for manifest in in_namespace(around, name)]
    applied(cluster, [*around[:2], *doors])
    for name, manifest in {**broken, **large, **whole}.items():
        given = as_list(in_namespace([manifest], name)[1:])
        ended = cluster.kubectl("create", "-f", "-", given=given)
        assert (ended.returncode != 0) == (name in broken), f"{name}: {ended.stderr}"
    eventually(lambda: set(whole) <= running(cluster), RUN_SECONDS, f"pods in {sorted(whole)}")
    assert not running(cluster) & {*broken, *large}


# kubectl


@pytest.mark.usefixtures("shell")
def test_kubectls_refusals_are_known(cluster: Cluster) -> None:
    assert Kubectl(ADMIN, "none").pods() == ()
    with pytest.raises(NotFoundError, match="no such context"):
        Kubectl("lab").pods()
    with pytest.raises(NotFoundError, match="w-9"):
        Kubectl(ADMIN, "none").pod("w-9")
    with pytest.raises(NotFoundError, match="machine-9"):
        Kubectl(ADMIN).cordon("machine-9")
    student = Kubectl(STUDENT, "none")
    assert student.pods() == ()
    for refused in (
        partial(student.refuse_without_rights, "delete", "pods"),
        partial(student.refuse_without_rights, "patch", "nodes"),
        partial(student.delete, "w-9", grace_seconds=0),
        partial(student.cordon, "machine-0"),
    ):
        with pytest.raises(KubernetesError, match="context student"):
            refused()
    admin = Kubectl(ADMIN)
    admin.refuse_without_rights("patch", "nodes")
    admin.cordon("machine-0")
    assert admin.unschedulable("machine-0")
    admin.uncordon("machine-0")
    assert not admin.unschedulable("machine-0")


# Faults

KUBECTL = """#!/bin/sh
{kubectl} "$@" || exit
case " $* " in *" delete pod "*) ;; *) exit 0 ;; esac
PYTHONPATH={root} RAYLAB_HOME={home} exec {python} -c \
    'import sys; from lab import Lab; Lab("local", name="{lab}").runtime.kill(sys.argv[-1])' {target}
"""
"""kubectl; a pod that it deletes takes the node of the lab of the same name with it."""


def as_pods(cluster: Cluster, namespace: str, names: tuple[str, ...]) -> None:
    """A RayCluster of KubeRay whose workers are pods of these names, which it takes for its own."""
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    labels = {"ray.io/cluster": "lab", "ray.io/group": "workers", "ray.io/node-type": "worker"}
    metadata = {"namespace": namespace, "labels": {**labels, "ray.io/is-ray-node": "yes"}}
    workers: list[Object] = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, **pod()} for name in names
    ]
    for objects in ([space], workers, in_namespace([ray_cluster()], namespace)):
        applied(cluster, objects)
    (made,) = cluster.objects("rayclusters", namespace)
    owner = {name: made["metadata"][name] for name in ("name", "uid")}
    owner |= {"apiVersion": made["apiVersion"], "kind": made["kind"], "controller": True}
    applied(
        cluster,
        [changed(worker, lambda m: m["metadata"].update(ownerReferences=[owner])) for worker in workers],
    )
    running = {"head": ["Running"], "worker": ["Running"] * len(names)}
    eventually(lambda: pods(cluster, namespace) == running, RUN_SECONDS, f"the pods of {namespace} run")


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("fault", ["kill", "cordon"])
def test_a_cluster_is_broken_and_judged_by_its_ledger(
    cluster: Cluster, bench: Bench, tmp_path: Path, fault: str
) -> None:
    """The lab's nodes train for two pods of KubeRay, which have their names."""
    as_pods(cluster, fault, ("ray-worker-0", "ray-worker-1"))
    job = bench.digits(epochs=7, workers=1)
    target = bench.where(job)
    kubectl = Kubectl(ADMIN, fault)
    machine = kubectl.pod(target).machine
    script = KUBECTL.format(
        kubectl=cluster.programs / "kubectl", root=ROOT, home=bench.home, python=sys.executable,
        lab=bench.name, target=target,
    )  # fmt: skip
    (tmp_path / "kubectl").write_text(script)
    (tmp_path / "kubectl").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    given = {"PATH": path, "KUBECONFIG": cluster.environment["KUBECONFIG"]}
    where = ("--runtime", "kubernetes", "--context", ADMIN, "--namespace", fault)
    words = ("fault-inject", target, *where, "--fault", fault, "--job", job, "--after-epoch", "2")
    receipt = bench.from_outside(tmp_path, given, *words).document
    assert_recovered(receipt)
    machines = {pod.name: pod.machine for pod in kubectl.pods() if "worker" in pod.group[1]}
    assert len(machines) == 2
    assert target not in machines
    if fault == "cordon":
        assert machine not in [place for name, place in machines.items() if name.startswith("lab-")]
    assert not kubectl.unschedulable(machine), "it was not uncordoned"

    again = bench.from_outside(tmp_path, given, "receipt", job).document
    assert again["verdict"] == "recovered"
    assert again["attempts"] == receipt["attempts"]
    bench.labctl("restart", target, timeout=200)
