"""export check: findings on manifests of KubeRay and Kueue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lab.cli import documents, values
from lab.cli.commands.queue.files import NAMESPACE
from lab.cli.context import App, LabCommand, pass_app
from lab.errors import ManifestError, SetupError
from lab.host import environment
from lab.host.quantities import plural

if TYPE_CHECKING:
    from lab.flows.kubernetes.lint import LintReport, Validate


@click.command(cls=LabCommand)
@click.argument(
    "files", type=values.Place(), nargs=-1, required=True, metavar="FILE...",
    help="YAML files with manifests, or folders with such files; together they are one set.",
)  # fmt: skip
@NAMESPACE
@pass_app
def check(app: App, files: tuple[Path, ...], namespace: str) -> None:
    """Check manifests of KubeRay and Kueue without a cluster.

    Says what their API servers would refuse, by the schemas of Kubernetes, KubeRay and Kueue, and which job
    would wait for ever, by quotas against what it asks for. Exits with 22 when there is an error; warnings
    and notes do not change that.
    """
    from lab.flows.kubernetes.lint import lint
    from lab.flows.kubernetes.manifests import texts_of

    report = lint(texts_of(files), schemas(app), namespace)
    app.out.as_json(documents.linted(report))
    if not app.out.json_wanted:
        tell(app, report, whole=True)
        listed = ", ".join(f"{number} {kind}" for kind, number in report.objects) or "no object"
        app.out.line(f"{listed}: {counted(report)}")
    if report.errors:
        first = report.errors[0]
        more = f" (and {len(report.errors) - 1} more)" if len(report.errors) > 1 else ""
        app.fail(ManifestError(f"{first}{more}", first.hint))


def schemas(app: App) -> Validate | None:
    """Kubernetes' schemas; kubernetes-validate is installed when it is first needed, if it can be."""
    from lab.flows.kubernetes.lint.schemas import validator

    try:
        environment.ensure("kubernetes", app.out.note)
    except SetupError as error:
        app.out.warn(error.message, error.hint)
    return validator()


def tell(app: App, report: LintReport, *, whole: bool) -> None:
    """Print findings: errors as results, the rest to stderr; of what was just made only the warnings."""
    for finding in report.findings:
        if finding.level == "warning":
            app.out.warn(str(finding), finding.hint)
        elif finding.level == "note" and whole:
            app.out.note(f"note: {finding}{f' ({finding.hint})' if finding.hint else ''}")
        elif whole:
            app.out.line(f"error: {finding}{f' ({finding.hint})' if finding.hint else ''}")
    if report.not_counted and whole:
        app.out.note(f"not counted: {', '.join(report.not_counted)}")
    for words in report.not_asked:
        app.out.warn(f"not asked: {words}")


def counted(report: LintReport) -> str:
    """Describe in words how much was found."""
    levels = [finding.level for finding in report.findings]
    counts = [plural(levels.count(level), level) for level in ("error", "warning", "note") if level in levels]
    return ", ".join(counts) or "nothing found"
