"""Checks of manifests without a cluster: schemas of Kubernetes, KubeRay and Kueue, and the fit of quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kueue.reading import DEFAULT_NAMESPACE
from lab.ext.kubernetes.lint import quotas, schemas
from lab.ext.kubernetes.lint.schemas import Validate
from lab.ext.kubernetes.manifests import ERROR, LEVELS, Finding, read_manifests

__all__ = ["LintReport", "Validate", "lint"]

NO_SCHEMAS = "schemas of Kubernetes and KubeRay: the package kubernetes-validate is not installed"


@dataclass(frozen=True)
class LintReport:
    """Findings on a set of manifests, errors first."""

    objects: tuple[tuple[str, int], ...]
    """(kind, how many), in the order of the files."""
    findings: tuple[Finding, ...]
    not_counted: tuple[str, ...] = ()
    """Kinds of queued objects whose pods were not held against a quota."""
    not_asked: tuple[str, ...] = ()
    """Checks that could not be made, and why."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings with which it cannot work."""
        return tuple(finding for finding in self.findings if finding.level == ERROR)


def lint(
    texts: Iterable[tuple[str, str]], validate: Validate | None, namespace: str = DEFAULT_NAMESPACE
) -> LintReport:
    """Check these texts, each with the name of its file, as one set.

    `namespace` is for objects that name none.
    """
    manifests, findings = read_manifests(texts, namespace)
    if validate is not None:
        findings += (wrong for manifest in manifests for wrong in schemas.check(manifest, validate))
    read = quotas.queue_objects(manifests, namespace)
    findings += [*quotas.problems(read), *quotas.check(manifests, read)]
    return LintReport(
        tuple(Counter(manifest.kind for manifest in manifests).items()),
        tuple(
            sorted(
                dict.fromkeys(findings),
                key=lambda finding: (LEVELS.index(finding.level), finding.file, finding.line, finding.path),
            )
        ),
        quotas.not_counted(manifests),
        () if validate is not None else (NO_SCHEMAS,),
    )
