"""The lab as a RayCluster, or as a RayJob that brings its own; an AppWrapper around it."""

from __future__ import annotations

from lab.flows.kubernetes.clusters import RAY_VERSION
from lab.flows.kubernetes.export.pods import PROBE_FOLDER, labels, secret_name, start_params, template
from lab.flows.kubernetes.export.wanted import JOB_FOLDER, Code, Object, Wanted, entrypoint
from lab.flows.kubernetes.export.yaml_text import as_yaml
from lab.flows.kubernetes.manifests import PRIORITY_CLASS, QUEUE_NAME

GROUP = "workers"
TTL_SECONDS = 600
"""Time that a cluster stays after its job, to be looked at, where no quota counts it."""
REDIS_PORT = 6379


def workload(wanted: Wanted) -> Object:
    """The one object that is admitted: RayCluster or RayJob, or the AppWrapper around it."""
    inner = ray_job(wanted, wanted.code) if wanted.code is not None else ray_cluster(wanted)
    if not wanted.app_wrapper:
        inner["metadata"]["labels"].update(queue_labels(wanted))
        return inner
    metadata = inner["metadata"]
    outer = {**metadata, "labels": {**metadata["labels"], **queue_labels(wanted)}}
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": outer,
        "spec": {"components": [{"template": inner}]},
    }


def queue_labels(wanted: Wanted) -> dict[str, str]:
    """Labels by which Kueue knows queue and priority."""
    queue = {QUEUE_NAME: wanted.queue} if wanted.queue else {}
    return queue | ({PRIORITY_CLASS: wanted.priority} if wanted.priority else {})


def ray_cluster(wanted: Wanted) -> Object:
    """The cluster alone: jobs are submitted to it."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": wanted.spec.name, "namespace": wanted.space, "labels": labels(wanted)},
        "spec": cluster_spec(wanted),
    }


def cluster_spec(wanted: Wanted) -> Object:
    """Head, workers, token, and Redis where the lab has it."""
    workers = wanted.spec.workers
    spec: Object = {
        "rayVersion": RAY_VERSION,
        "authOptions": {"mode": "token", "secretName": secret_name(wanted, "token")},
        "headGroupSpec": {
            "rayStartParams": start_params(wanted, head=True),
            "template": template(wanted, head=True),
        },
        "workerGroupSpecs": [
            {
                "groupName": GROUP,
                "replicas": workers,
                "minReplicas": workers,
                "maxReplicas": workers,
                "rayStartParams": start_params(wanted, head=False),
                "template": template(wanted, head=False),
            }
        ],
    }
    if wanted.spec.gcs_ft:
        secret = {"name": secret_name(wanted, "redis"), "key": "password"}
        spec["gcsFaultToleranceOptions"] = {
            "redisAddress": f"{wanted.spec.name}-redis:{REDIS_PORT}",
            "redisPassword": {"valueFrom": {"secretKeyRef": secret}},
        }
    return spec


def ray_job(wanted: Wanted, code: Code) -> Object:
    """A job with a cluster of its own, which ends with it.

    Kueue frees its quota as soon as it is complete (pkg/controller/jobs/rayjob/rayjob_controller.go:
    Finished), so a queued one keeps no pods after that; the log of its submitter stays.
    """
    spec: Object = {
        "entrypoint": entrypoint(code),
        "runtimeEnvYAML": runtime_env(code),
        "metadata": {"job_name": code.name, **code.metadata},
        "submissionMode": "K8sJobMode",
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 0 if wanted.queue else TTL_SECONDS,
        "backoffLimit": 0,
        "rayClusterSpec": cluster_spec(wanted),
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": code.name, "namespace": wanted.space, "labels": labels(wanted)},
        "spec": spec,
    }


def runtime_env(code: Code) -> str:
    """The runtime environment as YAML: the job's own, and its folder on the path of driver and workers."""
    given = dict(code.runtime_env)
    variables = dict(given.pop("env_vars", {}))
    own = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = ":".join((PROBE_FOLDER, JOB_FOLDER, *([own] if own else [])))
    return as_yaml([{"env_vars": variables, **given}])
