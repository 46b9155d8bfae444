"""Checks of manifests without a cluster: fields, Kubernetes' schemas, Ray's own readers, rules, quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kueue.reading import DEFAULT_NAMESPACE
from lab.flows.kubernetes.clusters import clusters
from lab.flows.kubernetes.lint import fields, jobs, quotas, ray, rules, schemas, settings
from lab.flows.kubernetes.manifests import (
    ERROR,
    LEVELS,
    Finding,
    Manifest,
    read_manifests,
)

__all__ = ["Authorities", "LintReport", "authorities_here", "lint"]

NO_SCHEMAS = "Kubernetes' schemas: the package kubernetes-validate is not installed"
NO_RAY = "Ray's own readers: Ray is not installed here; `labctl up --runtime local` installs it"


@dataclass(frozen=True)
class Authorities:
    """What others decide: Kubernetes' schemas and Ray's readers; None where they are not installed."""

    schemas: schemas.Validate | None
    ray: ray.Readers | None


@dataclass(frozen=True)
class LintReport:
    """Findings on a set of manifests, errors first."""

    objects: tuple[tuple[str, int], ...]
    """(kind, how many), in the order of the files."""
    findings: tuple[Finding, ...]
    not_asked: tuple[str, ...] = ()
    """Checks that could not be made, and why."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings with which it cannot work."""
        return tuple(finding for finding in self.findings if finding.level == ERROR)


def authorities_here() -> Authorities:
    """Whoever can be asked on this machine."""
    try:
        validate: schemas.Validate | None = schemas.validator()
    except ImportError:
        validate = None
    try:
        readers: ray.Readers | None = ray.readers()
    except ImportError:
        readers = None
    return Authorities(validate, readers)


def lint(
    texts: Iterable[tuple[str, str]], asked: Authorities, namespace: str = DEFAULT_NAMESPACE
) -> LintReport:
    """Check these texts, each with the name of its file, as one set.

    `namespace` is for objects that name none.
    """
    manifests, wrong = read_manifests(texts, namespace)
    findings = [*wrong, *_one_by_one(manifests, asked), *_all(manifests, namespace)]
    order = {level: place for place, level in enumerate(LEVELS)}
    unique = dict.fromkeys(findings)
    kinds = Counter(manifest.kind for manifest in manifests)
    missing = [
        words for authority, words in ((asked.schemas, NO_SCHEMAS), (asked.ray, NO_RAY)) if authority is None
    ]
    return LintReport(
        tuple(kinds.items()),
        tuple(
            sorted(
                unique, key=lambda finding: (order[finding.level], finding.file, finding.line, finding.path)
            )
        ),
        tuple(missing),
    )


def _one_by_one(manifests: Sequence[Manifest], asked: Authorities) -> Iterator[Finding]:
    for manifest in manifests:
        known = list(fields.check(manifest))
        yield from known
        yield from rules.names(manifest)
        yield from rules.accelerators(manifest)
        yield from jobs.jobs(manifest)
        yield from jobs.queued(manifest)
        for cluster in clusters(manifest):
            for rule in (*rules.NODE_RULES, *settings.SETTINGS_RULES):
                yield from rule(cluster)
        if asked.schemas is not None:
            yield from schemas.check(manifest, asked.schemas)
        if asked.ray is not None and not any(finding.level == ERROR for finding in known):
            yield from ray.check(manifest, asked.ray)


def _all(manifests: Sequence[Manifest], namespace: str) -> Iterator[Finding]:
    yield from jobs.together(manifests)
    read = quotas.queue_objects(manifests, namespace)
    yield from quotas.found_in(read)
    yield from quotas.check(manifests, read)
