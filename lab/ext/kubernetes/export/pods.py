"""Pods of the cluster: head and workers, with what the lab's nodes are given."""

from __future__ import annotations

from kueue.quantity import shown
from lab.cluster import patches, ray_settings
from lab.ext.kubernetes.export.configmaps import items_of, probe_files
from lab.ext.kubernetes.export.request import JOB_FOLDER, ExportRequest, Object
from lab.topology import LEDGER_PREFIX, Vendor

PROBE_FOLDER = "/opt/raylab/probe"
HEAD_CPU, HEAD_MEMORY = 2, 4 * 1024**3
"""CPUs and bytes of the head: Ray's scheduler and dashboard, and the jobs' drivers."""
USER = 1000
"""The user of the lab's image and of Ray's."""

STOCK_ON_A_NETWORK = (
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S",
    "RAY_raylet_start_wait_time_s",
)
"""Settings of the lab that suit one machine: on a network they would kill nodes that live."""

PORTS = {
    "head": (
        ("gcs-server", 6379),
        ("dashboard", 8265),
        ("client", 10001),
        ("metrics", 8080),
        ("as-metrics", 44217),
        ("dash-metrics", 44227),
    ),
    "worker": (("metrics", 8080),),
}


def secret_name(request: ExportRequest, what: str) -> str:
    """Name of the Secret with this: token, s3 or redis."""
    return f"{request.spec.name}-{what}"


def probe_name(request: ExportRequest) -> str:
    """Name of the ConfigMap with the recorder and the patches."""
    return f"{request.spec.name}-probe"


def code_name(request: ExportRequest) -> str:
    """Name of the ConfigMap with the job's code."""
    assert request.code is not None
    return f"{request.code.name}-code"


def template(request: ExportRequest, *, head: bool) -> Object:
    """The pod template of the head or of a worker."""
    spec: Object = {
        "containers": [_container(request, head=head)],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": _volumes(request, head=head),
    }
    if not head and request.gpu:
        spec["tolerations"] = [{"key": request.gpu, "operator": "Exists", "effect": "NoSchedule"}]
        if request.runtime_class:
            spec["runtimeClassName"] = request.runtime_class
    return {"metadata": {"labels": labels(request)}, "spec": spec}


def labels(request: ExportRequest) -> dict[str, str]:
    """Labels of every object of the lab."""
    return {"app.kubernetes.io/part-of": "raylab", "raylab.io/lab": request.spec.name}


def start_params(request: ExportRequest, *, head: bool) -> dict[str, str]:
    """What KubeRay gives to `ray start`; all are texts."""
    memory = HEAD_MEMORY if head else request.worker_memory
    own = {"num-cpus": "0", "dashboard-host": "0.0.0.0"} if head else {}
    return {**own, "object-store-memory": str(object_store(memory))}


def object_store(memory: int) -> int:
    """Bytes of a node's object store: a quarter of its memory."""
    return memory // 4


def _container(request: ExportRequest, *, head: bool) -> Object:
    cpu = HEAD_CPU if head else request.spec.cpus_per_worker
    memory = HEAD_MEMORY if head else request.worker_memory
    amounts = {"cpu": str(cpu), "memory": shown("memory", memory)}
    if not head and request.gpu:
        amounts[request.gpu] = "1"
    mounts: list[Object] = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    if not request.in_image:
        mounts.append({"name": "probe", "mountPath": PROBE_FOLDER, "readOnly": True})
        if request.code is not None and request.code.files:
            mounts.append({"name": "code", "mountPath": JOB_FOLDER, "readOnly": True})
    kind = "head" if head else "worker"
    return {
        "name": f"ray-{kind}",
        "image": request.nodes_image,
        "ports": [{"name": name, "containerPort": port} for name, port in PORTS[kind]],
        "env": environment(request),
        "resources": {"limits": amounts, "requests": dict(amounts)},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }


def environment(request: ExportRequest) -> list[Object]:
    """Variables of a node, in Kubernetes' form."""
    spec = request.spec
    off = patches.switched_off(spec, {})
    knobs = ray_settings.environment(stock=spec.stock_ray)
    gpu = spec.gpu.vendor if request.gpu else Vendor.NONE
    plain = {
        "PYTHONPATH": PROBE_FOLDER,
        "RAY_TRAIN_CALLBACKS": patches.callbacks(),
        **({patches.OFF_VARIABLE: off} if off else {}),
        "RAYLAB_LEDGER": f"{request.storage}/{LEDGER_PREFIX}",
        "RAYLAB_GPU": gpu.value,
        **({"AWS_ENDPOINT_URL": request.endpoint} if request.endpoint else {}),
        "AWS_REGION": request.region,
        "AWS_DEFAULT_REGION": request.region,
        "AWS_EC2_METADATA_DISABLED": "true",
        **{name: value for name, value in knobs.items() if name not in STOCK_ON_A_NETWORK},
    }
    own = {"name": "RAYLAB_SERVICE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    keys = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret_name(request, "s3"), "key": name}}}
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    ]
    return [own, *({"name": name, "value": value} for name, value in plain.items()), *keys]


def _volumes(request: ExportRequest, *, head: bool) -> list[Object]:
    memory = HEAD_MEMORY if head else request.worker_memory
    volumes: list[Object] = [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": shown("memory", memory // 2)}}
    ]
    if request.in_image:
        return volumes
    probe = {"name": probe_name(request), "items": items_of(probe_files())}
    volumes.append({"name": "probe", "configMap": probe})
    if request.code is not None and request.code.files:
        volumes.append(
            {"name": "code", "configMap": {"name": code_name(request), "items": items_of(request.code.files)}}
        )
    return volumes
