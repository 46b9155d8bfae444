"""Findings on manifests, printed; and who is asked about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.context import App
from lab.errors import SetupError

if TYPE_CHECKING:
    from lab.flows.kubernetes.lint import Authorities, Report


def others(app: App) -> Authorities:
    """Whoever can be asked; kubernetes-validate is installed when it is first needed, if it can be."""
    from lab.flows.kubernetes.lint import authorities_here
    from lab.host import environment

    try:
        environment.ensure("kubernetes", app.out.note)
    except SetupError as error:
        app.out.warn(error.message, error.hint)
    return authorities_here()


def tell(app: App, report: Report, *, whole: bool) -> None:
    """Print findings: errors as results, the rest to stderr; of what was just made only the warnings."""
    for each in report.findings:
        if each.level == "warning":
            app.out.warn(str(each), each.hint)
        elif each.level == "note" and whole:
            app.out.note(f"note: {each}{f' ({each.hint})' if each.hint else ''}")
        elif whole:
            app.out.line(f"error: {each}{f' ({each.hint})' if each.hint else ''}")
    for words in report.not_asked:
        app.out.warn(f"not asked: {words}")


def counted(report: Report) -> str:
    """Describe in words how much was found."""
    from lab.host.quantities import plural

    levels = [each.level for each in report.findings]
    found = [plural(levels.count(level), level) for level in ("error", "warning", "note") if level in levels]
    return ", ".join(found) or "nothing found"
