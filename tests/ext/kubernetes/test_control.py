"""The runtime of pods: what it breaks, what it waits for, what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import (
    KubernetesError,
    LabDownError,
    NotFoundError,
    RefusedError,
    UnsupportedError,
    WaitTimeoutError,
)
from lab.ext.kubernetes.control import BACK_SECONDS, KubernetesControl
from lab.ext.kubernetes.kubectl import Kubectl
from lab.faults import FAULTS, Scene, find_fault
from lab.lab import Lab
from lab.runtime.base import Feature
from lab.topology import LabSpec
from tests.ext.kubernetes.fake_cluster import FakeCluster
from tests.fakes.host import FakeHost


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster("w-0", "w-1")


@pytest.fixture
def runtime(cluster: FakeCluster) -> KubernetesControl:
    return KubernetesControl(Kubectl("school", "ann", run=cluster.run), clock=FakeHost().clock)


def test_its_services_are_the_pods_of_ray(runtime: KubernetesControl) -> None:
    status = runtime.status()
    assert (status.name, [service.service for service in status.services]) == (
        "school/ann",
        ["head-1", "w-0", "w-1"],
    )
    assert status.healthy
    assert (runtime.is_worker("w-0"), runtime.is_worker("head-1")) == (True, False)


def test_kill_deletes_at_once_and_start_waits_for_the_other_pod(
    cluster: FakeCluster, runtime: KubernetesControl
) -> None:
    find_fault("kill").inject(Scene(runtime, "w-0"))
    assert cluster.said()[-1] == "delete pod w-0 --grace-period=0 --force --wait=false"
    runtime.start("w-0")
    assert runtime.status().healthy


def test_a_pod_that_nobody_replaces_is_a_revert_that_failed(
    cluster: FakeCluster, runtime: KubernetesControl
) -> None:
    cluster.replaces = False
    runtime.kill("w-0")
    with pytest.raises(WaitTimeoutError, match=f"ready pod after {BACK_SECONDS:g} s"):
        runtime.start("w-0")


def test_cordon_drains_the_pod_off_its_machine_and_its_revert_uncordons(
    cluster: FakeCluster, runtime: KubernetesControl
) -> None:
    scene, fault = Scene(runtime, "w-1"), find_fault("cordon")
    fault.refuse(scene)
    fault.inject(scene)
    assert cluster.unschedulable == {"machine-w-1"}
    assert "w-1" not in cluster.pods
    fault.revert(scene)
    fault.revert(scene)
    assert cluster.unschedulable == set()


def test_a_machine_that_was_cordoned_before_is_left_to_whoever_did_that(
    cluster: FakeCluster, runtime: KubernetesControl
) -> None:
    cluster.unschedulable.add("machine-w-1")
    scene, fault = Scene(runtime, "w-1"), find_fault("cordon")
    with pytest.raises(RefusedError, match=r"machine-w-1 .*cordoned"):
        fault.inject(scene)
    fault.revert(scene)
    assert cluster.unschedulable == {"machine-w-1"}
    assert "w-1" in cluster.pods


def test_without_the_rights_nothing_is_deleted_or_cordoned(
    cluster: FakeCluster, runtime: KubernetesControl
) -> None:
    cluster.forbidden = {"delete", "patch"}
    with pytest.raises(KubernetesError, match="delete pods in namespace ann"):
        runtime.kill("w-0")
    with pytest.raises(KubernetesError, match="no right to patch nodes"):
        find_fault("cordon").refuse(Scene(runtime, "w-0"))
    assert set(cluster.pods) == {"head-1", "w-0", "w-1"}


def test_other_faults_are_refused_before_anything_is_asked(
    cluster: FakeCluster, runtime: KubernetesControl
) -> None:
    possible = []
    for name in FAULTS:
        try:
            find_fault(name).refuse(Scene(runtime, "w-0"))
            possible.append(name)
        except UnsupportedError:
            pass
    assert possible == ["cordon", "kill", "stop"]
    assert cluster.said() == ["auth can-i patch nodes"]


def test_labctl_neither_starts_nor_stops_a_cluster(cluster: FakeCluster, runtime: KubernetesControl) -> None:
    lab = Lab(runtime)
    for call in (lambda: lab.up(LabSpec()), lab.down, lab.endpoints, runtime.spec, lambda: lab.logs("w-0")):
        with pytest.raises(UnsupportedError, match="school/ann"):
            call()
    cluster.pods.clear()
    with pytest.raises(LabDownError, match="school/ann has no pod"):
        runtime.spec()


@pytest.mark.parametrize(
    ("act", "feature"),
    [
        (lambda pods: pods.pause("w-0"), Feature.PROCESSES),
        (lambda pods: pods.resume("w-0"), Feature.PROCESSES),
        (lambda pods: pods.crash("w-0"), Feature.PROCESSES),
        (lambda pods: pods.execute("w-0", ["true"]), Feature.PROCESSES),
        (lambda pods: pods.set_training_key(False), Feature.PROCESSES),
        (lambda pods: pods.disconnect("w-0"), Feature.NETWORK),
        (lambda pods: pods.reconnect("w-0"), Feature.NETWORK),
        (lambda pods: pods.impair("w-0", delay_ms=1.0), Feature.NETWORK),
        (lambda pods: pods.unimpair("w-0"), Feature.NETWORK),
    ],
)
def test_what_needs_a_feature_that_pods_lack_is_refused_with_the_reason(
    runtime: KubernetesControl, act: Callable[[KubernetesControl], object], feature: Feature
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        act(runtime)
    assert caught.value.message.endswith(f": {runtime.missing(feature)}")


def test_an_unknown_pod_names_those_there_are(runtime: KubernetesControl) -> None:
    with pytest.raises(NotFoundError) as caught:
        runtime.kill("w-7")
    assert caught.value.hint == "there are: head-1, w-0, w-1"


def test_notes_of_a_cluster_have_a_folder_that_is_no_labs(
    runtime: KubernetesControl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAYLAB_HOME", str(tmp_path))
    assert runtime.folder() == tmp_path / ".clusters" / "school_ann"
