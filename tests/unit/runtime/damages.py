"""Ways in which a lab's state file is damaged or lost, the same for every runtime that keeps one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path], object]


def damages(other_schema: str) -> dict[str, tuple[Damage, str]]:
    """Name -> what it does to the file, and what labctl says of it. `other_schema` is of another labctl."""

    def another_version(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema": other_schema}))

    return {
        "truncated": (lambda path: path.write_bytes(path.read_bytes()[:100]), "is damaged (JSONDecodeError"),
        "scrambled": (lambda path: path.write_bytes(path.read_bytes()[::-1]), "is damaged (JSONDecodeError"),
        "binary": (lambda path: path.write_bytes(b"\xff\xfe\x00" * 99), "is damaged (ValueError: not text"),
        "nested": (lambda path: path.write_text("[" * 100_000), "is damaged (ValueError: nested"),
        "empty": (lambda path: path.write_bytes(b""), "is damaged (JSONDecodeError"),
        "another version": (another_version, f"is damaged (ValueError: schema {other_schema!r} is not"),
        "deleted": (lambda path: path.unlink(), "is missing"),
        "the whole folder": (lambda path: shutil.rmtree(path.parent), "is missing"),
    }
