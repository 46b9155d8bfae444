"""Rules of jobs and of Kueue: what KubeRay or Kueue refuses, and what makes a job wait for ever."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.flows.kubernetes.clusters import RAY, RayCluster, clusters, inside
from lab.flows.kubernetes.manifests import (
    APP_WRAPPER,
    ERROR,
    KUEUE,
    NOTE,
    QUEUE_NAME,
    WARNING,
    Finding,
    Manifest,
    Path_,
    items,
    mapping,
    text,
)
from lab.host.reading import parse_json

SELECTOR_KEY = "ray.io/cluster"
ELASTIC = "kueue.x-k8s.io/elastic-job"
MOST_POD_SETS = 18
NAME_OF_HEAD = "head"
TOKEN_KEY = "auth_token"


def jobs(manifest: Manifest) -> Iterator[Finding]:
    """A RayJob whose settings cannot be set together."""
    if manifest.group != RAY or manifest.kind != "RayJob":
        return
    spec = manifest.spec
    selector, mode = mapping(spec.get("clusterSelector")), text(spec.get("submissionMode"))
    shuts_down = spec.get("shutdownAfterJobFinishes") is True

    def wrong(rule: str, field: str, message: str, hint: str = "") -> Finding:
        return manifest.finding(rule, ERROR, ("spec", field), message, hint)

    if spec.get("suspend") is True and not shuts_down:
        message = "suspend needs shutdownAfterJobFinishes: true; KubeRay refuses it"
        yield wrong("shutdown", "suspend", message, "set shutdownAfterJobFinishes: true")
    if spec.get("ttlSecondsAfterFinished") and not shuts_down:
        yield wrong(
            "shutdown", "ttlSecondsAfterFinished", "does nothing without shutdownAfterJobFinishes: true"
        )
    strategy = mapping(spec.get("deletionStrategy"))
    if strategy.get("deletionRules") and shuts_down:
        message = "deletionRules and shutdownAfterJobFinishes cannot be set together"
        yield wrong("shutdown", "deletionStrategy", message)
    if not spec.get("rayClusterSpec") and not selector:
        yield wrong("job-cluster", "rayClusterSpec", "neither rayClusterSpec nor clusterSelector is there")
    if selector and not selector.get(SELECTOR_KEY):
        yield wrong("job-cluster", "clusterSelector", f"the key must be {SELECTOR_KEY}")
    if selector and spec.get("suspend") is True:
        yield wrong("job-cluster", "suspend", "a job on a cluster that is there cannot be suspended")
    if spec.get("backoffLimit") and (selector or mode == "InteractiveMode"):
        yield wrong("job-retries", "backoffLimit", "each retry is a cluster of its own: not with this mode")
    submits = mode == "InteractiveMode" or spec.get("submitterPodTemplate")
    if not submits and not text(spec.get("entrypoint")).strip():
        yield wrong("entrypoint", "entrypoint", "is missing")
    if mode == "SidecarMode":
        for field in ("submitterPodTemplate", "submitterConfig"):
            if field in spec:
                yield wrong(
                    "submitter", field, "is not taken in SidecarMode: the submitter runs in the head's pod"
                )
        if selector:
            yield wrong("job-cluster", "clusterSelector", "is not taken in SidecarMode")
        head = inside(spec, ("rayClusterSpec", "headGroupSpec", "template", "spec"))
        if text(head.get("restartPolicy")) not in ("", "Never"):
            yield wrong("submitter", "rayClusterSpec", "SidecarMode needs restartPolicy Never for the head")
    elif "submitterPodTemplate" in spec:
        policy = inside(spec, ("submitterPodTemplate", "spec")).get("restartPolicy")
        if policy not in ("Never", "OnFailure"):
            message = (
                "needs restartPolicy Never or OnFailure: Kubernetes refuses the submitter, no job begins"
            )
            yield wrong("submitter", "submitterPodTemplate", message)
    for field in ("activeDeadlineSeconds",):
        value = spec.get(field)
        if isinstance(value, int) and value <= 0:
            yield wrong("deadline", field, "must be more than 0")
    amounts = text(spec.get("entrypointResources"))
    if amounts and not _json_object(amounts):
        message = "is not a JSON object in a text"
        yield wrong(
            "entrypoint", "entrypointResources", message, """write entrypointResources: '{"name": 1}'"""
        )


def _json_object(words: str) -> bool:
    try:
        return isinstance(parse_json(words), dict)
    except ValueError:
        return False


def queued(manifest: Manifest) -> Iterator[Finding]:
    """An object that Kueue admits, and that Kueue refuses or never lets go on."""
    labels = manifest.labels
    if manifest.inside and QUEUE_NAME in labels:
        message = f"has a queue of its own inside of an {manifest.inside}: Kueue would keep it suspended"
        hint = f"only the {manifest.inside} is queued"
        yield manifest.finding("child-queue", ERROR, ("metadata", "labels", QUEUE_NAME), message, hint)
        return
    rayclusters = list(clusters(manifest))
    for cluster in rayclusters:
        yield from _children(cluster)
    if QUEUE_NAME not in labels:
        return
    if manifest.kind == "RayJob":
        yield from _queued_job(manifest)
    if manifest.kind == APP_WRAPPER:
        for place, component in enumerate(items(manifest.spec.get("components"))):
            inner = mapping(mapping(component).get("template"))
            yield from _outliving(manifest, inner, ("spec", "components", place, "template"))
    if manifest.spec.get("suspend") is False:
        message = "suspend is Kueue's to set: false is overridden"
        yield manifest.finding("suspend", WARNING, ("spec", "suspend"), message, "leave it out")
    for cluster in rayclusters:
        if cluster.autoscaled and mapping(manifest.metadata.get("annotations")).get(ELASTIC) != "true":
            message = "Kueue does not take a cluster that is scaled by itself"
            hint = f'turn enableInTreeAutoscaling off, or set the annotation {ELASTIC}: "true"'
            yield manifest.finding(
                "queued-autoscaler", ERROR, (*cluster.path, "enableInTreeAutoscaling"), message, hint
            )
        sets = len(cluster.groups) + (manifest.kind == "RayJob")
        if sets > MOST_POD_SETS:
            message = f"{sets} sets of pods; Kueue takes at most {MOST_POD_SETS}"
            yield manifest.finding("queued-groups", ERROR, cluster.path, message)
        for group in cluster.groups[1:]:
            if group.name == NAME_OF_HEAD:
                message = "a group of workers called head: Kueue keeps that name for the head"
                yield manifest.finding("queued-groups", ERROR, (*group.path, "groupName"), message)


def _queued_job(manifest: Manifest) -> Iterator[Finding]:
    spec = manifest.spec
    if spec.get("clusterSelector"):
        message = "with clusterSelector Kueue does not look at the job: its queue name does nothing"
        level = ERROR if spec.get("rayClusterSpec") else WARNING
        yield manifest.finding("queued-selector", level, ("spec", "clusterSelector"), message)
    elif spec.get("shutdownAfterJobFinishes") is not True:
        message = (
            "Kueue refuses a RayJob without shutdownAfterJobFinishes: true: its quota would never come back"
        )
        yield manifest.finding("shutdown", ERROR, ("spec",), message, "set shutdownAfterJobFinishes: true")
    else:
        yield from _outliving(manifest, manifest.value, ())


def _outliving(manifest: Manifest, job: Mapping[str, object], at: Path_) -> Iterator[Finding]:
    """Pods that stay after a RayJob: Kueue gives its quota away once KubeRay says that it is complete."""
    stays = mapping(job.get("spec")).get("ttlSecondsAfterFinished")
    if isinstance(stays, int) and stays > 0:
        message = f"the pods stay for {stays} s after the job, but Kueue gives its quota away at once"
        hint = "set it to 0: the log of the submitter stays, and the ledger"
        path = (*at, "spec", "ttlSecondsAfterFinished")
        yield manifest.finding("queued-ttl", WARNING, path, message, hint)


def _children(cluster: RayCluster) -> Iterator[Finding]:
    """Pods that carry a queue's name: Kueue would admit each of them once more."""
    for group in cluster.groups:
        metadata = mapping(mapping(group.value.get("template")).get("metadata"))
        if QUEUE_NAME in mapping(metadata.get("labels")):
            message = f"the pods carry {QUEUE_NAME}: Kueue would hold each of them back by itself"
            path = (*group.path, "template", "metadata", "labels", QUEUE_NAME)
            kind = cluster.manifest.kind
            yield cluster.manifest.finding("child-queue", ERROR, path, message, f"only the {kind} is queued")


# Between objects


def together(manifests: Sequence[Manifest]) -> Iterator[Finding]:
    """What has to fit between objects: names, secrets, quotas of a namespace that want limits."""
    seen: set[tuple[str, str, str, str]] = set()
    for manifest in manifests:
        if manifest.group.endswith(KUEUE):
            continue  # kueue.reading says it
        key = (manifest.group, manifest.kind, manifest.namespace, manifest.name)
        if manifest.name and manifest.metadata.get("name") and key in seen and manifest.inside != APP_WRAPPER:
            message = f"a second {manifest.kind} {manifest.name}: the last one counts"
            yield manifest.finding("twice", ERROR, ("metadata", "name"), message)
        seen.add(key)
    for manifest in manifests:
        for cluster in clusters(manifest):
            yield from _token(cluster, manifests)
            yield from _limits(cluster, manifests)


def _token(cluster: RayCluster, manifests: Sequence[Manifest]) -> Iterator[Finding]:
    options = mapping(cluster.value.get("authOptions"))
    name = text(options.get("secretName"))
    if options.get("mode") != "token" or not name:
        return
    at = (*cluster.path, "authOptions", "secretName")
    space = cluster.manifest.namespace
    secret = next((m for m in manifests if (m.kind, m.name, m.namespace) == ("Secret", name, space)), None)
    if secret is None:
        message = f"Secret {name} is not among these files: it must be there, with the key {TOKEN_KEY}"
        yield cluster.manifest.finding("token", NOTE, at, message)
    elif not {TOKEN_KEY} & {*mapping(secret.value.get("data")), *mapping(secret.value.get("stringData"))}:
        message = f"Secret {name} has no key {TOKEN_KEY}"
        yield cluster.manifest.finding("token", ERROR, at, message)


def _limits(cluster: RayCluster, manifests: Sequence[Manifest]) -> Iterator[Finding]:
    """Containers without the limits that a ResourceQuota of their namespace demands."""
    demanded = {
        text(key).removeprefix("limits.")
        for manifest in manifests
        if manifest.kind == "ResourceQuota" and manifest.namespace == cluster.manifest.namespace
        for key in mapping(manifest.spec.get("hard"))
        if text(key) in ("limits.cpu", "limits.memory")
    }
    for group in cluster.groups if demanded else ():
        for kind in ("containers", "initContainers"):
            for place, container in enumerate(items(group.pod.get(kind))):
                limits = mapping(mapping(mapping(container).get("resources")).get("limits"))
                missing = sorted(demanded - {*limits})
                if missing:
                    path = (*group.path, "template", "spec", kind, place)
                    message = (
                        f"no limit of {' and '.join(missing)}, which a ResourceQuota of the namespace demands"
                    )
                    yield cluster.manifest.finding("namespace-limits", ERROR, path, message)
