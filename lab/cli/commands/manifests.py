"""lint: manifests of KubeRay and Kueue, checked."""

from __future__ import annotations

from pathlib import Path

import click

from lab.cli import documents, values
from lab.cli.commands.queue.files import NAMESPACE
from lab.cli.context import App, LabCommand, pass_app
from lab.cli.findings import counted, others, tell
from lab.errors import ManifestError


@click.command(cls=LabCommand)
@click.argument(
    "files", type=values.Place(), nargs=-1, required=True, metavar="FILE...",
    help="YAML files with manifests, or folders with such files; together they are one set.",
)  # fmt: skip
@NAMESPACE
@pass_app
def lint(app: App, files: tuple[Path, ...], namespace: str) -> None:
    """Check manifests of KubeRay and Kueue without a cluster.

    Says what would wait for ever and why: by fields, Kubernetes' own schemas, Ray's own readers, mistakes
    that users repeat, and quotas against what jobs ask for. Exits with 22 when something could not work;
    warnings and notes do not change that.
    """
    from lab.flows.kubernetes.lint import lint as check
    from lab.flows.kubernetes.manifests import texts_of

    report = check(texts_of(files), others(app), namespace)
    app.out.as_json(documents.linted(report))
    if not app.out.json_wanted:
        tell(app, report, whole=True)
        listed = ", ".join(f"{number} {kind}" for kind, number in report.objects) or "no object"
        app.out.line(f"{listed}: {counted(report)}")
    if report.errors:
        first = report.errors[0]
        more = f" (and {len(report.errors) - 1} more)" if len(report.errors) > 1 else ""
        app.fail(ManifestError(f"{first}{more}", first.hint))


COMMANDS = (lint,)
