"""Findings on manifests, printed; and who is asked about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.context import App
from lab.errors import SetupError

if TYPE_CHECKING:
    from lab.flows.kubernetes.lint import Authorities, LintReport


def others(app: App) -> Authorities:
    """Whoever can be asked; kubernetes-validate is installed when it is first needed, if it can be."""
    from lab.flows.kubernetes.lint import authorities_here
    from lab.host import environment

    try:
        environment.ensure("kubernetes", app.out.note)
    except SetupError as error:
        app.out.warn(error.message, error.hint)
    return authorities_here()


def tell(app: App, report: LintReport, *, whole: bool) -> None:
    """Print findings: errors as results, the rest to stderr; of what was just made only the warnings."""
    for finding in report.findings:
        if finding.level == "warning":
            app.out.warn(str(finding), finding.hint)
        elif finding.level == "note" and whole:
            app.out.note(f"note: {finding}{f' ({finding.hint})' if finding.hint else ''}")
        elif whole:
            app.out.line(f"error: {finding}{f' ({finding.hint})' if finding.hint else ''}")
    for words in report.not_asked:
        app.out.warn(f"not asked: {words}")


def counted(report: LintReport) -> str:
    """Describe in words how much was found."""
    from lab.host.quantities import plural

    levels = [finding.level for finding in report.findings]
    counts = [plural(levels.count(level), level) for level in ("error", "warning", "note") if level in levels]
    return ", ".join(counts) or "nothing found"
