"""The lab as a folder of manifests: made, checked, and only then written."""

from __future__ import annotations

from lab.ext.kubernetes.documents import LintReport
from lab.ext.kubernetes.export.queues import CONFIGURATION, configuration, queue_objects, queues_of
from lab.ext.kubernetes.export.request import ExportRequest
from lab.ext.kubernetes.export.texts import as_yaml, config_map, parts_of, probe_files, render, workload
from lab.ext.kubernetes.lint import lint

__all__ = ["ExportRequest", "export"]


def export(request: ExportRequest) -> tuple[dict[str, bytes], LintReport]:
    """The manifests of a lab, path in the folder -> content, and what a check of them found.

    Raises UsageError and NotFoundError for what cannot be written, ManifestError for what would not work.
    """
    setup = queues_of(request)
    labels = {request.space: request.labels, **{space: {} for space, _ in setup.local_queues}}
    for space, more in setup.namespaces.items():
        labels[space] = {**labels.get(space, {}), **more}
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": own}}
        for name, own in labels.items()
    ]
    own = {f"{part.what}.yaml": as_yaml([config_map(part, request)]) for part in parts_of(request)}
    if request.spec.gcs_ft:
        own["redis.yaml"] = render("redis.yaml.j2", request)
    own[f"{request.kind}.yaml"] = workload(request)
    # others may use these too: `kubectl delete -k` has to leave them
    shared = {"namespaces.yaml": as_yaml(namespaces)}
    if request.queue_files:
        shared["queues.yaml"] = as_yaml(queue_objects(setup))
    elif request.queue:
        shared["queues.yaml"] = render("queue.yaml.j2", request)
    if settings := configuration(setup):
        shared[CONFIGURATION] = as_yaml(settings)
    version = "kustomize.config.k8s.io/v1beta1"
    listed = [{"apiVersion": version, "kind": "Kustomization", "resources": list(own)}]
    texts = {**shared, **own, "kustomization.yaml": as_yaml(listed)}
    report = lint(texts.items(), request.space)
    report.refuse("not written: ")
    files = {path: content.encode() for path, content in texts.items()}
    if request.in_image:
        files["image/Dockerfile"] = render("Dockerfile.j2", request).encode()
        files |= {f"image/probe/{path}": content for path, content in probe_files().items()}
        files |= {f"image/job/{path}": content for path, content in request.code_files.items()}
    files["secrets.sh"] = render("secrets.sh.j2", request).encode()
    there = {path.partition("/")[0] for path in files}
    files["README.md"] = render("readme.md.j2", request, files=there).encode()
    return files, report
