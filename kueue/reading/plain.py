"""YAML values in Python's types."""

from __future__ import annotations

import re

from kueue.reading.nodes import BOOL, FLOAT, INT, NULL, At, Problems, documents


def plain(at: At) -> object:
    """The value in Python's types; merge keys are resolved, and times stay texts."""
    if at.node.id == "sequence":
        return [plain(item) for item in at.items()]
    if at.node.id == "mapping":
        given = at.mapping()
        merged = plain(given.pop("<<")) if "<<" in given else {}
        merged_in: dict[str, object] = {}
        for inherited in reversed(merged if isinstance(merged, list) else [merged]):
            merged_in.update(inherited if isinstance(inherited, dict) else {})
        return merged_in | {key: plain(value) for key, value in given.items()}
    value, tag = str(at.node.value), at.tag
    if tag == NULL:
        return None
    if tag == BOOL:
        return value.lower() in ("true", "yes", "on")
    try:
        if tag == INT:
            digits = value.replace("_", "")
            return int(digits, 8) if re.fullmatch(r"[-+]?0\d+", digits) else int(digits, 0)
        if tag == FLOAT:
            return float(value.replace("_", ""))
    except ValueError:
        pass
    return value


def values(content: str) -> list[object]:
    """The documents of a YAML text in Python's types, empty ones left out.

    Raises ValueError for what is no YAML, and for what would never end: `not YAML: ... (line 3)`.
    """
    problems = Problems()
    read = [plain(root) for root in documents(content, "", problems)]
    for problem in problems.errors:
        raise ValueError(f"{problem.message} (line {problem.line})")
    return read
