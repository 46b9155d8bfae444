"""kubectl: what is called, and what its refusals mean."""

from __future__ import annotations

import subprocess

import pytest

from lab.errors import KubernetesError, LabError, NotFoundError
from lab.ext.kubernetes.kubectl import Kubectl
from tests.ext.kubernetes.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster("w-0", "w-1")


def test_each_call_names_context_and_namespace_and_is_no_line_of_a_shell(cluster: FakeCluster) -> None:
    kubectl = Kubectl("school", "ann; rm -rf /", run=cluster.run)
    kubectl.delete("w-0", grace_seconds=0)
    kubectl.delete("w-1", grace_seconds=9.5)
    common = ("kubectl", "--context", "school", "--namespace", "ann; rm -rf /", "--request-timeout=20s")
    assert cluster.calls == [
        (*common, "delete", "pod", "w-0", "--grace-period=0", "--force", "--wait=false"),
        (*common, "delete", "pod", "w-1", "--grace-period=10", "--wait=false"),
    ]


def test_without_a_namespace_it_is_the_contexts_own(cluster: FakeCluster) -> None:
    Kubectl("school", run=cluster.run).cordon("machine-1")
    assert cluster.calls == [
        ("kubectl", "--context", "school", "--request-timeout=20s", "cordon", "machine-1")
    ]


def test_a_pod_is_read(cluster: FakeCluster) -> None:
    pod = Kubectl("school", run=cluster.run).pod("w-0")
    assert (pod.name, pod.machine, pod.phase, pod.ready) == ("w-0", "machine-w-0", "Running", True)
    assert pod.group == ("c", "worker")


def failing(context: str = "school", **changes: object) -> LabError:
    cluster = FakeCluster("w-0")
    vars(cluster).update(changes)
    kubectl = Kubectl(context, "ann", run=cluster.run)
    with pytest.raises(LabError) as caught:
        kubectl.delete("w-9" if not changes else "w-0", grace_seconds=0)
    return caught.value


def test_every_refusal_says_what_is_wrong() -> None:
    cases: list[tuple[LabError, type[LabError], str]] = [
        (failing(), NotFoundError, "namespace ann has no pod w-9"),
        (failing("lab"), NotFoundError, "--context lab: kubectl knows no such context"),
        (
            failing(forbidden={"delete"}),
            KubernetesError,
            "context school has no right to delete pod in namespace ann",
        ),
        (failing(fails=FileNotFoundError()), KubernetesError, "kubectl is not on PATH"),
        (failing(fails=PermissionError(13, "Permission denied")), KubernetesError, "Permission denied"),
        (
            failing(fails=subprocess.TimeoutExpired("kubectl", 30)),
            KubernetesError,
            "kubectl delete did not answer for 30 s",
        ),
    ]
    for error, kind, words in cases:
        assert isinstance(error, kind)
        assert words in error.message
        assert error.hint
    assert KubernetesError.exit_code == 23


def test_a_machine_that_is_not_there_is_no_pod(cluster: FakeCluster) -> None:
    kubectl = Kubectl("school", "ann", run=cluster.run)
    for ask in (kubectl.cordon, kubectl.unschedulable):
        with pytest.raises(NotFoundError, match="m-9") as caught:
            ask("m-9")
        assert "kubectl get nodes" in caught.value.hint


def test_what_is_not_known_is_told_in_kubectls_words(cluster: FakeCluster) -> None:
    with pytest.raises(KubernetesError, match="no route to host"):
        Kubectl("school", run=cluster.run)._ask("version")


@pytest.mark.parametrize("answer", ["", "[]", "no JSON"])
def test_an_answer_that_is_no_object_is_refused(answer: str) -> None:
    def run(argv: tuple[str, ...], *, timeout: float) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, 0, answer, "")

    with pytest.raises(KubernetesError, match="not JSON"):
        Kubectl("school", run=run).pod("w-0")
