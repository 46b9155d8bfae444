"""What the modules of the project import and say: each is parsed once, for all tests that ask."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path


@dataclass
class Source:
    """What stands in a module, wherever in it."""

    imports: list[tuple[int, str]] = field(default_factory=list)
    """Line and full name of all that it imports."""
    strings: list[str] = field(default_factory=list)
    """Its strings, docstrings and fixed pieces of f-strings among them."""


def parse(text: str) -> Source:
    """Read a module's text."""
    source = Source()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Constant(value=str(string)):
                source.strings.append(string)
            case ast.Import():
                source.imports += ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                assert not node.level, "imports are absolute"
                source.imports += ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
    return source


@cache
def source_of(path: Path) -> Source:
    """What stands in this module."""
    return parse(path.read_text(encoding="utf-8"))
