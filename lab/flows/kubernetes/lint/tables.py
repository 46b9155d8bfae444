"""Fields of KubeRay 1.7 and of AppWrapper, as tables: kind -> what its spec may hold.

Pod templates are not here: lab.flows.kubernetes.lint.schemas has the schemas of Kubernetes for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from kueue.reading.nodes import INT32
from lab.flows.kubernetes.clusters import RAY
from lab.flows.kubernetes.manifests import APP_WRAPPER

APP_WRAPPERS = "workload.codeflare.dev"


@dataclass(frozen=True)
class Leaf:
    """A value that is no container."""

    what: str
    types: tuple[type, ...]
    least: int = -INT32 - 1
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fields:
    """A mapping with known names, some of which must be there."""

    known: Mapping[str, Shape]
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class Many:
    """A list of such values."""

    element: Shape


@dataclass(frozen=True)
class Named:
    """A mapping with any names and such values."""

    element: Shape


Shape: TypeAlias = "Leaf | Fields | Many | Named"

TEXT = Leaf("a text", (str,))
WHOLE = Leaf("a whole number", (int,))
COUNT = Leaf("a whole number of at least 0", (int,), least=0)
NUMBER = Leaf("a number", (int, float))
FLAG = Leaf("true or false", (bool,))
QUANTITY = Leaf("a quantity", (str, int, float))
ANY = Leaf("anything", (object,))


def one_of(*words: str) -> Leaf:
    """One of some words."""
    return Leaf(f"one of {', '.join(words)}", (str,), words=words)


TEXTS = Named(TEXT)
SECRET = Fields({"value": TEXT, "valueFrom": ANY})
RAY_GROUP: Mapping[str, Shape] = {
    "template": ANY,
    "rayStartParams": TEXTS,
    "resources": TEXTS,
    "labels": TEXTS,
}
HEAD = Fields(
    {
        **RAY_GROUP,
        "serviceType": TEXT,
        "headService": ANY,
        "enableIngress": FLAG,
        "ingressOptions": Fields(
            {
                "host": TEXT,
                "path": TEXT,
                "pathType": one_of("Exact", "Prefix", "ImplementationSpecific"),
                "tls": Many(Fields({"hosts": Many(TEXT), "secretName": TEXT})),
            }
        ),
    },
    ("template",),
)
WORKERS = Fields(
    {
        **RAY_GROUP,
        "groupName": TEXT,
        "replicas": WHOLE,
        "minReplicas": WHOLE,
        "maxReplicas": WHOLE,
        "numOfHosts": WHOLE,
        "idleTimeoutSeconds": WHOLE,
        "priority": WHOLE,
        "suspend": FLAG,
        "scaleStrategy": Fields({"workersToDelete": Many(TEXT)}),
    },
    ("groupName", "template"),
)
NETWORK = Fields({"ingressRules": ANY, "egressRules": ANY})
CLUSTER = Fields(
    {
        "rayVersion": TEXT,
        "suspend": FLAG,
        "managedBy": TEXT,
        "headGroupSpec": HEAD,
        "workerGroupSpecs": Many(WORKERS),
        "headServiceAnnotations": TEXTS,
        "enableInTreeAutoscaling": FLAG,
        "autoscalerOptions": Fields(
            {
                "version": one_of("v1", "v2"),
                "upscalingMode": one_of("Default", "Aggressive", "Conservative"),
                "idleTimeoutSeconds": WHOLE,
                "image": TEXT,
                "imagePullPolicy": TEXT,
                **dict.fromkeys(("resources", "env", "envFrom", "volumeMounts", "securityContext"), ANY),
                **dict.fromkeys(("command", "args"), Many(TEXT)),
            }
        ),
        "gcsFaultToleranceOptions": Fields(
            {
                "backend": one_of("redis", "rocksdb"),
                "redisAddress": TEXT,
                "redisUsername": SECRET,
                "redisPassword": SECRET,
                "externalStorageNamespace": TEXT,
                "storage": Fields(
                    {
                        "claimName": TEXT,
                        "size": QUANTITY,
                        "storageClassName": TEXT,
                        "accessModes": Many(TEXT),
                        "deletionPolicy": one_of("DeleteWithCluster", "Retain"),
                        "subPath": TEXT,
                    }
                ),
            }
        ),
        "authOptions": Fields(
            {"mode": one_of("disabled", "token"), "secretName": TEXT, "enableK8sTokenAuth": FLAG}
        ),
        "upgradeStrategy": Fields({"type": one_of("Recreate", "None")}),
        "tlsOptions": Fields({"enabled": FLAG}),
        "networkPolicy": Fields(
            {
                "mode": one_of("DenyAll", "DenyAllIngress", "DenyAllEgress"),
                "head": NETWORK,
                "worker": NETWORK,
                "workerGroups": Many(Fields({**NETWORK.known, "groupName": TEXT}, ("groupName",))),
            }
        ),
        "historyServerOptions": Fields(
            {
                "collectorOptions": Fields(
                    {"image": TEXT, "imagePullPolicy": TEXT, "resources": ANY, "env": ANY}
                )
            }
        ),
    },
    ("headGroupSpec",),
)
POLICY = one_of("DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone")
JOB = Fields(
    {
        "entrypoint": TEXT,
        "runtimeEnvYAML": TEXT,
        "jobId": TEXT,
        "metadata": TEXTS,
        "entrypointNumCpus": NUMBER,
        "entrypointNumGpus": NUMBER,
        "entrypointResources": TEXT,
        "submissionMode": one_of("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"),
        "submitterPodTemplate": ANY,
        "submitterConfig": Fields({"backoffLimit": WHOLE}),
        "rayClusterSpec": CLUSTER,
        "clusterSelector": TEXTS,
        "suspend": FLAG,
        "managedBy": TEXT,
        "shutdownAfterJobFinishes": FLAG,
        "ttlSecondsAfterFinished": COUNT,
        "activeDeadlineSeconds": WHOLE,
        "preRunningDeadlineSeconds": Leaf("a whole number of at least 1", (int,), least=1),
        "backoffLimit": COUNT,
        "deletionStrategy": Fields(
            {
                "onSuccess": Fields({"policy": POLICY}),
                "onFailure": Fields({"policy": POLICY}),
                "deletionRules": Many(
                    Fields(
                        {
                            "policy": POLICY,
                            "condition": Fields(
                                {
                                    "jobStatus": one_of("SUCCEEDED", "FAILED"),
                                    "jobDeploymentStatus": one_of("Failed"),
                                    "ttlSeconds": COUNT,
                                }
                            ),
                        },
                        ("policy", "condition"),
                    )
                ),
            }
        ),
    }
)
SERVICE = Fields(
    {
        "serveConfigV2": TEXT,
        "rayClusterConfig": CLUSTER,
        "serveService": ANY,
        "suspend": FLAG,
        "managedBy": TEXT,
        "rayClusterDeletionDelaySeconds": COUNT,
        "excludeHeadPodFromServeSvc": FLAG,
        "serviceUnhealthySecondThreshold": WHOLE,
        "deploymentUnhealthySecondThreshold": WHOLE,
        "upgradeStrategy": Fields(
            {
                "type": one_of("NewCluster", "None", "NewClusterWithIncrementalUpgrade"),
                "clusterUpgradeOptions": Fields(
                    {
                        **dict.fromkeys(("maxSurgePercent", "stepSizePercent", "intervalSeconds"), COUNT),
                        "gatewayClassName": TEXT,
                    }
                ),
            }
        ),
    },
    ("rayClusterConfig",),
)
CRON_JOB = Fields(
    {"schedule": TEXT, "timeZone": TEXT, "suspend": FLAG, "jobTemplate": JOB}, ("schedule", "jobTemplate")
)
WRAPPER = Fields(
    {
        "components": Many(
            Fields(
                {
                    "template": ANY,
                    "annotations": TEXTS,
                    "podSetInfos": ANY,
                    "podSets": Many(
                        Fields({"path": TEXT, "replicas": WHOLE, "annotations": TEXTS}, ("path",))
                    ),
                },
                ("template",),
            )
        ),
        "suspend": FLAG,
        "managedBy": TEXT,
    },
    ("components",),
)
TABLES: Mapping[tuple[str, str], tuple[str, Fields]] = {
    (RAY, "RayCluster"): ("v1", CLUSTER),
    (RAY, "RayJob"): ("v1", JOB),
    (RAY, "RayService"): ("v1", SERVICE),
    (RAY, "RayCronJob"): ("v1", CRON_JOB),
    (APP_WRAPPERS, APP_WRAPPER): ("v1beta2", WRAPPER),
}
"""(group, kind) -> version and fields of the spec."""
