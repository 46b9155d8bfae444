"""The lab as a folder of manifests: made, checked, and only then written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.errors import ManifestError
from lab.ext.kubernetes.export import around, guide
from lab.ext.kubernetes.export.configmaps import config_map, probe_files
from lab.ext.kubernetes.export.pods import code_name, labels, probe_name
from lab.ext.kubernetes.export.queues import CONFIGURATION, configuration, queue_objects, queues_of
from lab.ext.kubernetes.export.ray import workload
from lab.ext.kubernetes.export.request import ExportRequest, Object
from lab.ext.kubernetes.export.yaml_text import as_yaml
from lab.ext.kubernetes.lint import LintReport, Validate, lint

__all__ = ["Export", "ExportRequest", "export"]

SHARED = ("namespaces.yaml", "queues.yaml")
"""Files with objects that others may use too: `kubectl delete -k` has to leave them."""

NO_DASHBOARDS = "Ray's dashboards are left out: Ray is not installed here"


@dataclass(frozen=True)
class Export:
    """Everything that is to be written, checked already."""

    files: Mapping[str, bytes]
    """Path in the folder -> content."""
    applied: tuple[str, ...]
    """Those of them that are applied, in this order."""
    report: LintReport
    notes: tuple[str, ...] = ()

    def stream(self) -> str:
        """What is applied, as one text."""
        return "---\n".join(self.files[path].decode() for path in self.applied)


def export(request: ExportRequest, validate: Validate | None, dashboards: Mapping[str, str]) -> Export:
    """Make the manifests of a lab and check them; `dashboards` go along, name -> JSON.

    Raises UsageError and NotFoundError for what cannot be written, ManifestError for what would not work.
    """
    setup = queues_of(request)
    applied: dict[str, list[Object]] = {"namespaces.yaml": around.namespaces(request, setup)}
    own = labels(request)
    if not request.in_image:
        probe = config_map(probe_name(request), request.space, probe_files(), own, "the recorder")
        applied["probe.yaml"] = [probe]
        if request.code is not None and request.code.files:
            code = config_map(code_name(request), request.space, request.code.files, own, "the job's code")
            applied["code.yaml"] = [code]
    if request.queue:
        applied["queues.yaml"] = queue_objects(setup)
    if request.spec.gcs_ft:
        applied["redis.yaml"] = around.redis(request)
    manifest = workload(request)
    applied[f"{manifest['kind'].lower()}.yaml"] = [manifest]
    texts = {path: as_yaml(objects) for path, objects in applied.items()}
    texts["kustomization.yaml"] = kustomization(tuple(path for path in applied if path not in SHARED))
    beside: dict[str, list[Object]] = {"podmonitors.yaml": around.pod_monitors(request)}
    notes = []
    if dashboards:
        beside["dashboards.yaml"] = around.dashboards(request, dashboards)
    else:
        notes.append(NO_DASHBOARDS)
    texts |= {f"monitoring/{path}": as_yaml(objects) for path, objects in beside.items()}
    texts["monitoring/kustomization.yaml"] = kustomization(tuple(beside))
    if settings := configuration(setup):
        texts[CONFIGURATION] = as_yaml(settings)
    report = lint(texts.items(), validate, request.space)
    if report.errors:
        first = report.errors[0]
        more = f" (and {len(report.errors) - 1} more)" if len(report.errors) > 1 else ""
        raise ManifestError(f"not written: {first}{more}", first.hint)
    files = {path: content.encode() for path, content in texts.items()}
    if request.in_image:
        files |= guide.image_files(request, probe_files())
    files["secrets.sh"] = guide.secrets_script(request).encode()
    files["README.md"] = guide.readme(request, tuple(files)).encode()
    return Export(files, tuple(applied), report, tuple(notes))


def kustomization(files: tuple[str, ...]) -> str:
    """The list of files for `kubectl apply -k` and `kubectl delete -k`."""
    return as_yaml(
        [{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(files)}]
    )
