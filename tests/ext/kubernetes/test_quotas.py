"""A job that its quota never holds is told, the pod that submits it included."""

from __future__ import annotations

from typing import Any

import pytest

from lab.ext.kubernetes.lint.quotas import needs
from tests.ext.kubernetes.made import (
    Object,
    batch_job,
    changed,
    checked,
    cluster,
    errors,
    job,
    pod,
    queues,
    rules,
    wrapper,
)

# head 2 CPUs and 4Gi, two workers of 8 CPUs and 4Gi; the submitter of a job 500m and 200Mi


def test_a_quota_that_holds_head_and_workers_is_enough_for_a_cluster() -> None:
    assert checked([*queues("18", "12Gi"), cluster("main")]).findings == ()


def test_the_pod_that_submits_a_job_counts_too() -> None:
    report = checked([*queues("18", "12Gi"), job("main")])
    assert rules(report) == {"quota"}
    assert "500m cpu and 200Mi memory" in errors(report)[0].hint
    assert checked([*queues("18500m", "12488Mi"), job("main")]).findings == ()


def test_a_quota_below_what_is_asked_says_how_much_is_short() -> None:
    report = checked([*queues("10"), cluster("main")])
    assert rules(report) == {"quota"}
    assert "waits for ever in ClusterQueue all" in errors(report)[0].message
    assert "insufficient quota for cpu in flavor nodes" in errors(report)[0].message


def test_a_resource_that_no_quota_covers_keeps_a_job_waiting() -> None:
    ray_cluster = changed(
        cluster("main"),
        lambda m: m["spec"]["workerGroupSpecs"][0].update(template=pod(cpu="8", **{"nvidia.com/gpu": "1"})),
    )
    report = checked([*queues(), ray_cluster])
    assert "nvidia.com/gpu unavailable in ClusterQueue" in errors(report)[0].message
    assert errors(report)[0].hint.startswith("give ClusterQueue all a quota of nvidia.com/gpu")
    assert "quota" not in rules(checked([*queues(**{"nvidia.com/gpu": "2"}), ray_cluster]))


@pytest.mark.parametrize(
    ("mode", "cpu", "fits"),
    [
        ("HTTPMode", "18", True),
        ("InteractiveMode", "18", True),
        ("SidecarMode", "18", False),
        ("SidecarMode", "18500m", True),
        ("K8sJobMode", "18", False),
    ],
)
def test_each_way_to_submit_asks_for_its_own_pods(mode: str, cpu: str, fits: bool) -> None:
    ray_job = changed(job("main"), lambda m: m["spec"].update(submissionMode=mode))
    assert checked([*queues(cpu), ray_job]).good == fits


def test_a_submitter_of_its_own_counts_with_what_it_asks_for() -> None:
    submitter = changed(pod(cpu="4", memory="1Gi"), lambda m: m["spec"].update(restartPolicy="Never"))
    ray_job = changed(job("main"), lambda m: m["spec"].update(submitterPodTemplate=submitter))
    assert rules(checked([*queues("21"), ray_job])) == {"quota"}
    assert checked([*queues("22"), ray_job]).good


def test_what_is_inside_an_app_wrapper_counts() -> None:
    assert rules(checked([*queues("17"), wrapper(cluster(), "main")])) == {"quota"}
    assert checked([*queues("18"), wrapper(cluster(), "main")]).good


def test_of_rays_objects_in_an_app_wrapper_head_and_replicas_count_and_nothing_beside() -> None:
    def scale(m: Any) -> None:
        spec = m["spec"].get("rayClusterSpec", m["spec"])
        spec.update(enableInTreeAutoscaling=True)
        spec["workerGroupSpecs"][0].update(numOfHosts=4)

    for inner in (cluster(), job(), changed(job(), lambda m: m["spec"].update(submissionMode="SidecarMode"))):
        wrapped = wrapper(changed(inner, scale), "main")
        assert checked([*queues("18", "12Gi"), wrapped]).good
        assert rules(checked([*queues("17", "12Gi"), wrapped])) == {"quota"}
    scaled = changed(cluster(), lambda m: m["spec"]["workerGroupSpecs"][0].pop("replicas"))
    assert rules(checked([*queues("9"), wrapper(scaled, "main")])) == {"quota"}
    assert checked([*queues("10"), wrapper(scaled, "main")]).good


def test_a_service_in_an_app_wrapper_is_not_counted() -> None:
    inner = {**cluster(), "kind": "RayService", "spec": {"rayClusterConfig": cluster()["spec"]}}
    report = checked([*queues("1"), wrapper(inner, "main")])
    assert (report.not_counted, report.good) == (("RayService",), True)


def test_hosts_and_replicas_of_a_group_are_multiplied() -> None:
    ray_cluster = changed(cluster(), lambda m: m["spec"]["workerGroupSpecs"][0].update(numOfHosts=4))
    assert [(pods["name"], pods["count"]) for pods in needs(ray_cluster)] == [("head", 1), ("workers", 8)]


def test_a_batch_job_is_held_against_its_queue() -> None:
    job = batch_job("main", parallelism=3)
    assert rules(checked([*queues("11"), job])) == {"quota"}
    assert checked([*queues("12"), job]).good


def test_a_batch_job_has_no_more_pods_than_it_wants_to_complete() -> None:
    job = batch_job("main", parallelism=3, completions=2)
    assert rules(checked([*queues("7"), job])) == {"quota"}
    assert checked([*queues("8"), job]).good


def test_a_batch_job_that_begins_with_fewer_pods_needs_room_for_these() -> None:
    job = batch_job("main", parallelism=20)
    assert rules(checked([*queues("9"), job])) == {"quota"}
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "2"}
    assert checked([*queues("9"), job]).good
    assert rules(checked([*queues("7"), job])) == {"quota"}


def other(kind: str, **spec: Any) -> Object:
    """A queued object of a kind that Kueue knows too."""
    metadata = {"name": "x", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "main"}}
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": metadata, "spec": spec}


def test_kinds_whose_pods_are_not_counted_are_named() -> None:
    cron_job = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "team"},
        "spec": {
            "schedule": "@daily",
            "jobTemplate": {k: batch_job("main")[k] for k in ("metadata", "spec")},
        },
    }
    wrapped = changed(wrapper(cluster(), "main"), lambda m: m["metadata"].update(name="w"))
    inner = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {}, "spec": pod()["spec"]}
    service: Object = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    wrapped["spec"]["components"] += [{"template": inner}, {"template": service}]
    selected = changed(job("main"), lambda m: m["spec"].update(clusterSelector={"ray.io/cluster": "x"}))
    claims = batch_job("main")
    claims["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": "t"}]
    counted = [cluster("main"), job("main"), batch_job("main"), wrapper(cluster(), "main"), service]
    assert checked([*queues(), *counted]).not_counted == ()
    for uncounted, kind in (
        (other("JobSet"), "JobSet"),
        (cron_job, "CronJob"),
        (wrapped, "PyTorchJob"),
        (selected, "RayJob"),
        (claims, "Job"),
    ):
        report = checked([*queues(), *counted, uncounted])
        assert (report.not_counted, report.good) == ((kind,), True), kind


def test_what_is_not_among_the_files_keeps_no_job_waiting() -> None:
    flavor, cluster_queue, local_queue = queues()
    cluster_queue["spec"]["namespaceSelector"] = {"matchLabels": {"team": "a"}}
    assert checked([cluster_queue, local_queue, cluster("main")]).good
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"team": "b"}}}
    report = checked([flavor, cluster_queue, local_queue, space, cluster("main")])
    assert "namespace doesn't match ClusterQueue selector" in errors(report)[0].message


def test_a_queue_with_another_name_is_a_warning_with_the_right_one() -> None:
    (finding,) = checked([*queues(), cluster("mian")]).findings
    assert (finding.rule, finding.level, finding.hint) == ("quota", "warning", "did you mean main?")


def test_a_queue_elsewhere_is_a_note() -> None:
    report = checked([cluster("main")])
    assert rules(report, "note") == {"quota"}
    assert report.good


def test_a_local_queue_without_its_cluster_queue_is_a_note_beside_the_queues_warning() -> None:
    report = checked([queues()[2], cluster("main")])
    assert rules(report, "note") == {"quota"}
    assert rules(report, "warning") == {"queues"}


def test_borrowing_from_a_cohort_is_room_too() -> None:
    objects = queues("10")
    objects[1]["spec"]["cohortName"] = "school"
    lender: Any = changed(objects[1], lambda m: m["metadata"].update(name="other"))
    assert checked([*objects, lender, cluster("main")]).good


def test_errors_of_kueues_objects_are_errors_and_what_only_the_lab_leaves_out_is_a_note() -> None:
    objects = queues()
    objects[1]["spec"]["cohortname"] = "x"
    objects[1]["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": "a"}]}
    report = checked(objects)
    assert rules(report, "error") == {"queues"}
    assert rules(report, "note") == {"queues-left-out"}
    assert "did you mean cohortName?" in {finding.hint for finding in report.findings}
