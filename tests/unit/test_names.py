"""Names say what a value holds, in the word that the field has for it; docstrings say what is done."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

FORBIDDEN = ("found", "told", "each")
"""Words that say how a value came, not what it is: `match`, `candidates`, `message`, `node` say that."""

NAMED = ("lab", "kueue", "forkserver", "benchmarks")
"""Folders whose names are looked at."""


def names_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of all that a module names: variables, parameters, attributes, functions, imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.alias():
                yield node.lineno, node.asname or node.name


def forbidden(text: str) -> list[tuple[int, str]]:
    """Lines of a module that name something with a forbidden word, in their order."""
    return sorted((line, name) for line, name in names_of(ast.parse(text)) if name.strip("_") in FORBIDDEN)


def test_no_value_is_named_for_the_way_it_came() -> None:
    files = sorted(file for room in NAMED for file in (ROOT / room).rglob("*.py"))
    named = {str(file.relative_to(ROOT)): forbidden(file.read_text(encoding="utf-8")) for file in files}
    assert not {file: names for file, names in named.items() if names}


def test_no_docstring_only_points_elsewhere_or_only_says_what_is_raised() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    pointing = [
        f"{file.relative_to(ROOT)}: {getattr(node, 'name', 'module')}"
        for file in sorted((ROOT / "lab").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, documented) and (ast.get_docstring(node) or "").startswith(("See ", "Raises "))
    ]
    assert pointing == []


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "[each.key for each in rows]",
        "def ask(told): ...",
        "def told(): ...",
        "self.found",
        "def _told(): ...",
        "from rows import line as each",
        "try: ...\nexcept OSError as told: ...",
        "match row:\n case [1, *found]: ...",
        "match row:\n case {'a': 1, **each}: ...",
    ],
)
def test_a_forbidden_name_is_seen_wherever_it_is_given(text: str) -> None:
    assert forbidden(text)
