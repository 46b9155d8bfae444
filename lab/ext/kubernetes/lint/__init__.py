"""Checks of manifests without a cluster: schemas of Kubernetes, KubeRay and Kueue, and the fit of quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kueue.reading import DEFAULT_NAMESPACE
from lab.ext.kubernetes.documents import ERROR, LEVELS, NOTE, WARNING, LintReport
from lab.ext.kubernetes.lint import quotas, schemas
from lab.ext.kubernetes.manifests import read_manifests, taken_over


def lint(texts: Iterable[tuple[str, str]], namespace: str = DEFAULT_NAMESPACE) -> LintReport:
    """Check these texts, each with the name of its file, as one set.

    `namespace` is for objects that name none.
    """
    manifests, findings = read_manifests(texts, namespace)
    findings += (wrong for manifest in manifests for wrong in schemas.check(manifest))
    read = quotas.queue_objects(manifests, namespace)
    for error in read.errors:
        rule, level = ("queues-left-out", NOTE) if error.left_out else ("queues", ERROR)
        findings.append(taken_over(rule, level, error))
    findings += (taken_over("queues", WARNING, warning) for warning in read.warnings)
    findings += quotas.check(manifests, read.setup)
    findings = sorted(
        dict.fromkeys(findings),
        key=lambda finding: (LEVELS.index(finding.level), finding.file, finding.line, finding.path),
    )
    good = all(finding.level != ERROR for finding in findings)
    objects = Counter(manifest.kind for manifest in manifests)
    return LintReport(good, dict(objects), tuple(findings), quotas.not_counted(manifests))
