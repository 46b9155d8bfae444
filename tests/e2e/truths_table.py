"""The table of test_truths.py in a Markdown file: a row for each script, a column for each fault."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SCRIPT = "script"
UNTRIED = "-"


def write_verdicts(file: Path, fault: str, verdicts: Mapping[str, str]) -> None:
    """Put these verdicts, by script, under their fault into the file's last table; the rest of it stays.

    Honest scripts come first. A file that is missing is made, with that table alone.
    """
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    begin = next((n for n, line in enumerate(lines) if line.startswith(f"| {SCRIPT} |")), len(lines))
    head, *others = [cells(line) for line in lines[begin:]] or [[SCRIPT]]
    rows = {row[0]: dict(zip(head, row, strict=True)) for row in others[1:]}
    for script, verdict in verdicts.items():
        rows.setdefault(script, {SCRIPT: script})[fault] = verdict
    head = list(dict.fromkeys([*head, fault]))
    made = [head, ["---"] * len(head)]
    made += [[rows[key].get(name, UNTRIED) for name in head] for key in sorted(rows, key=honest_first)]
    table = [f"| {' | '.join(row)} |" for row in made]
    file.write_text("\n".join([*lines[:begin], *table]) + "\n", encoding="utf-8")


def honest_first(script: str) -> tuple[bool, str]:
    """Key to sort scripts by."""
    return "honest" not in script, script


def cells(line: str) -> list[str]:
    """What stands in a row."""
    return [cell.strip() for cell in line.strip("|").split("|")]
