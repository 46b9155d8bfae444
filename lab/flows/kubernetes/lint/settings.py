"""Rules of a cluster as a whole: images and versions, the autoscaler, the token, Redis."""

from __future__ import annotations

from collections.abc import Iterator

from lab.flows.kubernetes.clusters import GPU_KEYS, RayCluster, python_of, ray_version_of
from lab.flows.kubernetes.manifests import ERROR, NOTE, WARNING, Finding, items, mapping, text

TOKEN_SINCE, HTTP_PROBES_SINCE, AUTOSCALER_V2_SINCE = (2, 52, 0), (2, 53, 0), (2, 47, 0)


def images(cluster: RayCluster) -> Iterator[Finding]:
    """Images with another Ray or Python than the rest of the cluster."""
    manifest = cluster.manifest
    said = text(cluster.value.get("rayVersion"))
    if not said:
        message = "rayVersion is missing: KubeRay takes decisions by it"
        yield manifest.finding("ray-version", WARNING, cluster.path, message)
    pythons: dict[str, str] = {}
    versions: dict[str, str] = {}
    for where, path, image in _images(cluster):
        version = ray_version_of(image)
        if version:
            versions.setdefault(version, where)
        if version and said and version != said:
            message = f"the image has Ray {version}, rayVersion says {said}"
            yield manifest.finding(
                "ray-version", ERROR, path, message, "head, workers and clients need the same Ray"
            )
        elif version and len(versions) > 1:
            other = next(other_version for other_version in versions if other_version != version)
            message = f"the image has Ray {version}, that of {versions[other]} {other}"
            yield manifest.finding("ray-version", ERROR, path, message)
        if python := python_of(image):
            pythons.setdefault(python, where)
            if len(pythons) > 1 and pythons.get(python) == where:
                first, where_first = next(iter(pythons.items()))
                message = f"the image has Python {python}, that of {where_first} {first}"
                yield manifest.finding(
                    "python-version", ERROR, path, message, "Ray needs the same on every node"
                )


def _images(cluster: RayCluster) -> Iterator[tuple[str, tuple[str | int, ...], str]]:
    for group in cluster.groups:
        yield group.name, (*group.container_path, "image"), text(group.container.get("image"))
    job = cluster.job or {}
    submitter = mapping(mapping(job.get("submitterPodTemplate")).get("spec"))
    for place, container in enumerate(items(submitter.get("containers"))):
        at = ("spec", "submitterPodTemplate", "spec", "containers", place, "image")
        yield "the submitter", at, text(mapping(container).get("image"))


def probes(cluster: RayCluster) -> Iterator[Finding]:
    """Health checks that need `wget` in the image."""
    version = cluster.version
    if version is None or version >= HTTP_PROBES_SINCE:
        return
    for group in cluster.groups:
        image = text(group.container.get("image"))
        own = "livenessProbe" in group.container and "readinessProbe" in group.container
        if image and not own and ray_version_of(image) is None:
            message = "before Ray 2.53 KubeRay's health checks call wget: the image must have it"
            yield cluster.manifest.finding("probes", NOTE, (*group.container_path, "image"), message)


def ray_first(cluster: RayCluster) -> Iterator[Finding]:
    """A container before Ray's: KubeRay takes the first one for Ray's."""
    for group in cluster.groups:
        listed = [mapping(container) for container in items(group.pod.get("containers"))]
        known = [ray_version_of(text(container.get("image"))) is not None for container in listed]
        if True in known[1:] and not known[0]:
            message = f"the first container, {text(listed[0].get('name'))}, does not look like Ray's"
            hint = f"put {text(listed[known.index(True)].get('name'))} first"
            yield cluster.manifest.finding("ray-first", ERROR, group.container_path, message, hint)


# Settings of the cluster


def autoscaler(cluster: RayCluster) -> Iterator[Finding]:
    """The autoscaler's settings that do nothing, or that KubeRay refuses."""
    manifest, at = cluster.manifest, (*cluster.path, "autoscalerOptions")
    options = mapping(cluster.value.get("autoscalerOptions"))
    if options and not cluster.autoscaled:
        message = "autoscalerOptions without enableInTreeAutoscaling: they do nothing"
        yield manifest.finding("autoscaler", WARNING, at, message)
    limits = mapping(mapping(options.get("resources")).get("limits"))
    requests = mapping(mapping(options.get("resources")).get("requests"))
    if any(key in GPU_KEYS for key in (*limits, *requests)):
        message = "these are of the autoscaler's own container beside the head, not of the workers"
        yield manifest.finding("autoscaler-resources", ERROR, (*at, "resources"), message)
    variables = cluster.groups[0].env()
    if not cluster.autoscaled and variables.get("RAY_enable_autoscaler_v2") in ("1", "true"):
        message = "RAY_enable_autoscaler_v2 is set, and enableInTreeAutoscaling is not: KubeRay refuses it"
        yield manifest.finding("autoscaler", ERROR, cluster.groups[0].container_path, message)
    if not cluster.autoscaled:
        return
    version = text(options.get("version"))
    second = version == "v2" or (not version and (cluster.version or (0, 0, 0)) >= AUTOSCALER_V2_SINCE)
    for group in cluster.groups:
        policy = text(group.pod.get("restartPolicy"))
        if second and policy not in ("", "Never"):
            message = f"restartPolicy {policy}: the autoscaler v2 needs Never, or none"
            path = (*group.path, "template", "spec", "restartPolicy")
            yield manifest.finding("autoscaler", ERROR, path, message)
        if group.value.get("suspend") is True:
            yield manifest.finding(
                "autoscaler", ERROR, group.path, "a group cannot be suspended with the autoscaler on"
            )


def authentication(cluster: RayCluster) -> Iterator[Finding]:
    """Token authentication that KubeRay refuses."""
    options = mapping(cluster.value.get("authOptions"))
    at = (*cluster.path, "authOptions")
    if options.get("mode") != "token":
        return
    version = cluster.version
    if version is None or version < TOKEN_SINCE:
        said = text(cluster.value.get("rayVersion")) or "nothing"
        message = f"a token needs rayVersion 2.52.0 or newer; it says {said}"
        yield cluster.manifest.finding("token", ERROR, at, message)
    if options.get("enableK8sTokenAuth") is True:
        if options.get("secretName"):
            message = "enableK8sTokenAuth and secretName cannot be set together"
            yield cluster.manifest.finding("token", ERROR, at, message)
        if cluster.manifest.kind != "RayCluster":
            message = f"enableK8sTokenAuth is not for a {cluster.manifest.kind}"
            yield cluster.manifest.finding("token", ERROR, at, message)


def fault_tolerance(cluster: RayCluster) -> Iterator[Finding]:
    """Settings of Redis at two places, of which KubeRay takes one."""
    manifest, head = cluster.manifest, cluster.groups[0]
    options = cluster.value.get("gcsFaultToleranceOptions")
    annotation = mapping(manifest.metadata.get("annotations")).get("ray.io/ft-enabled")
    variables = head.env()
    rule, instead = "gcs-fault-tolerance", "write it into gcsFaultToleranceOptions"
    if options is None:
        if "RAY_REDIS_ADDRESS" in variables and annotation != "true":
            message = "RAY_REDIS_ADDRESS without gcsFaultToleranceOptions: KubeRay refuses it"
            yield manifest.finding(rule, ERROR, head.container_path, message, instead)
    else:
        if annotation:
            message = "the annotation ray.io/ft-enabled and gcsFaultToleranceOptions cannot be set together"
            yield manifest.finding(rule, ERROR, ("metadata", "annotations"), message)
        for name in ("RAY_REDIS_ADDRESS", "REDIS_PASSWORD"):
            if name in variables:
                message = f"{name} beside gcsFaultToleranceOptions: KubeRay refuses it"
                yield manifest.finding(rule, ERROR, head.container_path, message, instead)
        if "redis-password" in head.params:
            message = "redis-password beside gcsFaultToleranceOptions: KubeRay refuses it"
            yield manifest.finding(rule, ERROR, (*head.path, "rayStartParams"), message, instead)
        given = mapping(options)
        if not given.get("redisAddress") and given.get("backend") != "rocksdb":
            message = "redisAddress is missing"
            yield manifest.finding(rule, ERROR, (*cluster.path, "gcsFaultToleranceOptions"), message)
    if "redis-username" in head.params or "REDIS_USERNAME" in variables:
        message = "a user name of Redis is taken only from gcsFaultToleranceOptions.redisUsername"
        yield manifest.finding(rule, ERROR, head.path, message)


SETTINGS_RULES = (images, probes, ray_first, autoscaler, authentication, fault_tolerance)
