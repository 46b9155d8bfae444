"""The lab as a RayCluster, or as a RayJob that brings its own; an AppWrapper around it."""

from __future__ import annotations

from lab.ext.kubernetes.clusters import RAY_VERSION
from lab.ext.kubernetes.export.pods import PROBE_FOLDER, labels, secret_name, start_params, template
from lab.ext.kubernetes.export.request import JOB_FOLDER, Code, ExportRequest, Object, entrypoint
from lab.ext.kubernetes.export.yaml_text import as_yaml
from lab.ext.kubernetes.manifests import PRIORITY_CLASS, QUEUE_NAME

GROUP = "workers"
TTL_SECONDS = 600
"""Time that a cluster stays after its job, to be looked at, where no quota counts it."""
REDIS_PORT = 6379


def workload(request: ExportRequest) -> Object:
    """The one object that is admitted: RayCluster or RayJob, or the AppWrapper around it."""
    inner = ray_job(request, request.code) if request.code is not None else ray_cluster(request)
    if not request.app_wrapper:
        inner["metadata"]["labels"].update(queue_labels(request))
        return inner
    metadata = inner["metadata"]
    outer = {**metadata, "labels": {**metadata["labels"], **queue_labels(request)}}
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": outer,
        "spec": {"components": [{"template": inner}]},
    }


def queue_labels(request: ExportRequest) -> dict[str, str]:
    """Labels by which Kueue knows queue and priority."""
    queue = {QUEUE_NAME: request.queue} if request.queue else {}
    return queue | ({PRIORITY_CLASS: request.priority} if request.priority else {})


def ray_cluster(request: ExportRequest) -> Object:
    """The cluster alone: jobs are submitted to it."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": request.spec.name, "namespace": request.space, "labels": labels(request)},
        "spec": cluster_spec(request),
    }


def cluster_spec(request: ExportRequest) -> Object:
    """Head, workers, token, and Redis where the lab has it."""
    workers = request.spec.workers
    spec: Object = {
        "rayVersion": RAY_VERSION,
        "authOptions": {"mode": "token", "secretName": secret_name(request, "token")},
        "headGroupSpec": {
            "rayStartParams": start_params(request, head=True),
            "template": template(request, head=True),
        },
        "workerGroupSpecs": [
            {
                "groupName": GROUP,
                "replicas": workers,
                "minReplicas": workers,
                "maxReplicas": workers,
                "rayStartParams": start_params(request, head=False),
                "template": template(request, head=False),
            }
        ],
    }
    if request.spec.gcs_ft:
        secret = {"name": secret_name(request, "redis"), "key": "password"}
        spec["gcsFaultToleranceOptions"] = {
            "redisAddress": f"{request.spec.name}-redis:{REDIS_PORT}",
            "redisPassword": {"valueFrom": {"secretKeyRef": secret}},
        }
    return spec


def ray_job(request: ExportRequest, code: Code) -> Object:
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
        "ttlSecondsAfterFinished": 0 if request.queue else TTL_SECONDS,
        "backoffLimit": 0,
        "rayClusterSpec": cluster_spec(request),
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": code.name, "namespace": request.space, "labels": labels(request)},
        "spec": spec,
    }


def runtime_env(code: Code) -> str:
    """The runtime environment as YAML: the job's own, and its folder on the path of driver and workers."""
    given = dict(code.runtime_env)
    variables = dict(given.pop("env_vars", {}))
    own = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = ":".join((PROBE_FOLDER, JOB_FOLDER, *([own] if own else [])))
    return as_yaml([{"env_vars": variables, **given}])
