"""Commands and pages of labctl in advice: `labctl --lab other up`, `docs/chaos.md`.

Advice is written without a lab and without folders. Where it is shown, `about` and `pages` add them.
"""

from __future__ import annotations

import re

from lab.host import environment
from lab.host.files import ROOT
from lab.topology import DEFAULT_LAB

COMMANDS = (
    *("chaos", "class", "demo", "doctor", "down", "export", "fault-inject", "gpus", "heal", "health", "jobs"),
    *("ladder", "lesson", "logs", "queue", "report", "restart", "status", "submit", "top", "up"),
)
"""Commands that act on a lab, or tell of one."""

WITHOUT = (
    *("export check", "fault-inject --list", "lesson data", "queue check", "queue simulate"),
    "submit --list",
)
"""Those of them that do neither."""

COMMAND = re.compile(
    rf"\blabctl (?!(?:{'|'.join(WITHOUT)})\b)(?=(?:{'|'.join(COMMANDS)})(?![\w-]))(?![^`\n;]*--lab\b)"
)


def about(text: str, lab: str, bare: str = DEFAULT_LAB) -> str:
    """Advice with the lab in every command that acts on one, unless the default is meant anyway.

    `bare` is the lab that a command without `--lab` would choose.
    """
    if lab == bare == DEFAULT_LAB:
        return text
    return COMMAND.sub(f"labctl --lab {lab} ", text)


DOCUMENTS = ROOT / "docs"
PAGE = re.compile(r"(?<![\w/])docs/(?=\w+\.md\b)")


def pages(text: str) -> str:
    """Advice with the pages where a labctl without a checkout has them."""
    return PAGE.sub(f"{DOCUMENTS}/", text) if environment.packaged() else text


ON_CLUSTERS = re.compile(r"\blabctl (?:fault-inject(?! --list)|heal)(?![\w-])(?![^`\n;]*--runtime\b)")


def about_cluster(text: str, options: str) -> str:
    """Advice with the options that name a cluster in every command that takes them."""
    return ON_CLUSTERS.sub(lambda command: f"{command[0]} {options}", text)
