"""What a report of a bug needs: versions and checks, without secrets and without the path of the home."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.host import environment, redaction
from lab.version import __version__

if TYPE_CHECKING:
    from lab.api.shown_here import BugReport, ShownCheck


def bug_report(
    checks: Sequence[ShownCheck], *, labs: Path | None = None, user: Path | None = None
) -> BugReport:
    """The document of `doctor --report`. `labs` is the folder of all labs, `user` the user's home."""
    document: BugReport = {
        "labctl": __version__,
        "installed": environment.packaged(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "checks": list(checks),
    }
    return redaction.of_this_machine(labs=labs, user=user).everything(document)
